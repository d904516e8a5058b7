// Which family a config belongs to, as far as listing its tensors goes.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/tensor_spec.h"

namespace seekline {

/// Every tensor of a checkpoint with this config. Throws Error(kUnsupported) for a model_type that no family
/// of this engine has, and what the family's parse_*_config throws.
std::vector<TensorSpec> tensor_specs_of(const nlohmann::json& config, const std::string& subject);

}  // namespace seekline
