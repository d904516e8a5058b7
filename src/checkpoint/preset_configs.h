// The configs behind the presets, compiled in.
#pragma once

#include <vector>

namespace seekline {

struct PresetSource {
  const char* name;
  const char* what;
  const char* json;
  const char* patch;  ///< merged into it (RFC 7396), or nullptr
};

const std::vector<PresetSource>& preset_sources();

}  // namespace seekline
