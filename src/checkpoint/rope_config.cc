#include "checkpoint/rope_config.h"

#include <fmt/format.h>

namespace seekline {
namespace {

constexpr double kMaxFactor = 65536;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 30;

void read_yarn(ConfigReader& reader, const RopeKinds& kinds, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = reader.number("factor", 1, kMaxFactor);
  scaling.original_context = reader.integer("original_max_position_embeddings", 0, kMaxContext);
  scaling.beta_fast = reader.number_or("beta_fast", 32, 1e-3, 1e6);
  scaling.beta_slow = reader.number_or("beta_slow", 1, 1e-3, 1e6);
  if (scaling.beta_fast < scaling.beta_slow)
    reader.problem("rope_scaling: beta_fast is smaller than beta_slow");
  if (kinds.mscale) {
    scaling.mscale = reader.number_or("mscale", 0, 0, 100);
    scaling.mscale_all_dim = reader.number_or("mscale_all_dim", 0, 0, 100);
  }
  if (kinds.attention_factor) {
    scaling.attention_factor = reader.number_or("attention_factor", 0, 0, 100);
    reader.must_be("truncate", true);
  }
}

void read_llama3(ConfigReader& reader, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = reader.number("factor", 1, kMaxFactor);
  scaling.original_context = reader.integer("original_max_position_embeddings", 1, kMaxContext);
  scaling.low_freq_factor = reader.number("low_freq_factor", 1e-3, 1e6);
  scaling.high_freq_factor = reader.number("high_freq_factor", 1e-3, 1e6);
  if (scaling.high_freq_factor <= scaling.low_freq_factor)
    reader.problem("rope_scaling: high_freq_factor must be larger than low_freq_factor");
}

}  // namespace

RopeScaling read_rope_scaling(ConfigReader& reader, const char* key, const std::string& parent,
                              const RopeKinds& kinds, double* theta) {
  RopeScaling scaling;
  const nlohmann::json* object = reader.object(key);
  if (object == nullptr) return scaling;
  const std::string path = parent + key;
  ConfigReader nested(*object, reader, path);
  if (theta != nullptr) *theta = nested.number("rope_theta", 1, 1e12);
  const std::string type = nested.string_or("type", "");
  const std::string kind = nested.string_or("rope_type", type);
  if (nested.has("type") && kind != type)
    nested.problem(fmt::format("{}: type '{}' and rope_type '{}' disagree", path, type, kind));
  if (kind == "yarn") {
    read_yarn(nested, kinds, scaling);
  } else if (kind == "linear" && kinds.linear) {
    scaling.kind = RopeScaling::Kind::kLinear;
    scaling.factor = nested.number("factor", 1, kMaxFactor);
  } else if (kind == "llama3" && kinds.llama3) {
    read_llama3(nested, scaling);
  } else if (kind != "default") {
    nested.unsupported(fmt::format(
        "{}: scaling of type '{}' is not one that this engine honours in this family", path, kind));
    return scaling;
  }
  nested.no_other_keys();
  return scaling;
}

}  // namespace seekline
