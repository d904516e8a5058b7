// The results of `seekline bench` as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/bench_model.h"

namespace seekline {

struct BenchReport {
  std::string model, geometry, isa;
  int threads = 0;
  std::int64_t chunk = 0;  ///< tokens of one forward of a prefill
  std::vector<MachineRates> machine;
  std::vector<CaseResult> decode, prefill;
  std::int64_t weight_bytes = 0;    ///< mapped, in files
  std::int64_t cache_bytes = 0;     ///< of the largest case
  std::int64_t scratch_bytes = 0;   ///< of the executor
  std::int64_t resident_bytes = 0;  ///< private memory of the process beyond cache and the machine's probe
};

std::string bench_text(const BenchReport& report);
nlohmann::json bench_json(const BenchReport& report);

}  // namespace seekline
