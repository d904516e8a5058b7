#include "model/network.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpoint/config_reader.h"
#include "model/deepseek_v41.h"
#include "model/deepseek_v41_plan.h"
#include "model/llama.h"
#include "seekline/error.h"

namespace seekline {
namespace {

std::string model_type_of(const nlohmann::json& config, const std::string& subject) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string())
    throw Error(ErrorCode::kBadFile, subject + ": model_type is missing, and it names the family of the model");
  return type->get<std::string>();
}

[[noreturn]] void refuse(const std::string& type, const std::string& subject) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: model_type \"{}\" is not a family this engine runs (it runs deepseek_v41 and llama)",
                          subject, type));
}

}  // namespace

std::unique_ptr<Network> load_network(const Checkpoint& checkpoint, const Tokenizer* tokenizer,
                                      const NumericSettings& settings) {
  const std::string path = (checkpoint.folder() / "config.json").string();
  const nlohmann::json config = read_config_file(path);
  const std::string type = model_type_of(config, path);
  if (type == "deepseek_v41") return load_deepseek_v41(checkpoint, config, tokenizer, settings);
  if (type == "llama") return load_llama(checkpoint, config, settings);
  refuse(type, path);
}

CachePlan plan_of_config(const nlohmann::json& config, const std::string& subject, Rows rows) {
  const std::string type = model_type_of(config, subject);
  if (type == "deepseek_v41") return plan_v41(parse_v41_config(config, subject), rows).plan;
  if (type == "llama") return plan_llama(parse_llama_config(config, subject), rows);
  refuse(type, subject);
}

}  // namespace seekline
