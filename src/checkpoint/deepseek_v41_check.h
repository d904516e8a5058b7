// Values of a V4.1 config that contradict each other.
#pragma once

#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_v41.h"

namespace seekline {

/// Looks at a config whose values are each within bounds; notes what does not fit together. Cuts the entries
/// of draft stages off `compress_ratios` after looking at them.
void check_v41_config(ConfigReader& root, V41Config& config);

}  // namespace seekline
