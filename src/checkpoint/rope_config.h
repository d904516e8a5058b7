// The `rope_scaling` object of configs.
#pragma once

#include "checkpoint/config_reader.h"
#include "checkpoint/yarn.h"

namespace seekline {

/// Which kinds a family honours beside "default", and which keys of YaRN.
struct RopeKinds {
  bool linear = false, llama3 = false;
  bool mscale = false;            ///< V2, V3: mscale and mscale_all_dim
  bool attention_factor = false;  ///< llama
};

/// Reads the object at `key` (absent or null: no scaling); `type` and `rope_type` are both understood.
/// `parent` is the dotted path of `reader` itself ("text_config." or ""). Where `theta` is given, the object
/// holds `rope_theta`, too.
RopeScaling read_rope_scaling(ConfigReader& reader, const char* key, const std::string& parent,
                              const RopeKinds& kinds, double* theta = nullptr);

}  // namespace seekline
