#include "model/network.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpoint/config_reader.h"
#include "model/deepseek_mla.h"
#include "model/deepseek_mla_plan.h"
#include "model/deepseek_v4.h"
#include "model/deepseek_v41.h"
#include "model/deepseek_v41_plan.h"
#include "model/deepseek_v4_plan.h"
#include "model/llama.h"
#include "model/yoco.h"
#include "seekline/error.h"

namespace seekline {
namespace {

std::string model_type_of(const nlohmann::json& config, const std::string& subject) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string())
    throw Error(ErrorCode::kBadFile,
                subject + ": model_type is missing, and it names the family of the model");
  return type->get<std::string>();
}

[[noreturn]] void refuse(const std::string& type, const std::string& subject) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: model_type \"{}\" is not a family this engine runs "
                          "(it runs deepseek_v2, deepseek_v3, deepseek_v32, deepseek_v4, "
                          "deepseek_v41, llama and yoco)",
                          subject, type));
}

bool is_mla(const std::string& type) {
  return type == "deepseek_v2" || type == "deepseek_v3" || type == "deepseek_v32";
}

void check_rows(const std::string& type, Rows rows) {
  if (rows == Rows::kFp8 && !is_mla(type))
    throw Error(ErrorCode::kUsage,
                fmt::format("rows are set to fp8, which only deepseek_v2, deepseek_v3 and deepseek_v32 have; "
                            "a model of {} takes deployed, bf16 or f32",
                            type));
}

}  // namespace

std::unique_ptr<Network> load_network(const Checkpoint& checkpoint, const Tokenizer* tokenizer,
                                      const NumericSettings& settings) {
  const std::string path = (checkpoint.folder() / "config.json").string();
  const nlohmann::json config = read_config_file(path);
  const std::string type = model_type_of(config, path);
  check_rows(type, settings.rows);
  if (type == "deepseek_v41") return load_deepseek_v41(checkpoint, config, tokenizer, settings);
  if (type == "deepseek_v4") return load_deepseek_v4(checkpoint, config, settings);
  if (is_mla(type)) return load_deepseek_mla(checkpoint, config, settings);
  if (type == "llama") return load_llama(checkpoint, config, settings);
  if (type == "yoco") return load_yoco(checkpoint, config, settings);
  refuse(type, path);
}

CachePlan plan_of_config(const nlohmann::json& config, const std::string& subject, Rows rows) {
  const std::string type = model_type_of(config, subject);
  check_rows(type, rows);
  if (is_mla(type)) return plan_mla(parse_mla_config(config, subject), rows).plan;
  if (type == "deepseek_v41") return plan_v41(parse_v41_config(config, subject), rows).plan;
  if (type == "deepseek_v4") return plan_v4(parse_v4_config(config, subject), rows).plan;
  if (type == "llama") return plan_llama(parse_llama_config(config, subject), rows);
  if (type == "yoco") return plan_yoco(parse_yoco_config(config, subject), rows);
  refuse(type, subject);
}

}  // namespace seekline
