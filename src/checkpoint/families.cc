#include "checkpoint/families.h"

#include <fmt/format.h>

#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_mla.h"
#include "checkpoint/deepseek_v4.h"
#include "checkpoint/deepseek_v41.h"
#include "checkpoint/llama.h"
#include "checkpoint/yoco.h"
#include "seekline/error.h"

namespace seekline {

std::vector<TensorSpec> tensor_specs_of(const nlohmann::json& config, const std::string& subject) {
  const std::string type = family_of_config(config, subject);
  if (type == "deepseek_v41") return v41_tensor_specs(parse_v41_config(config, subject));
  if (type == "deepseek_v4") return v4_tensor_specs(parse_v4_config(config, subject));
  if (type == "deepseek_v32" || type == "deepseek_v3" || type == "deepseek_v2")
    return mla_tensor_specs(parse_mla_config(config, subject));
  if (type == "llama") return llama_tensor_specs(parse_llama_config(config, subject));
  if (type == "yoco") return yoco_tensor_specs(parse_yoco_config(config, subject));
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: model_type '{}' is not a family this engine knows", subject, type));
}

}  // namespace seekline
