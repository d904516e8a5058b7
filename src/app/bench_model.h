// Times steps of a model beside readings of the machine.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/bench_machine.h"
#include "core/step_profile.h"
#include "seekline/model.h"

namespace seekline {

/// Smallest, middle and largest of some readings.
struct Spread {
  double min = 0, median = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

/// Sums over all timed steps of one case.
struct PartResult {
  StepPart part = StepPart::kOther;
  double seconds = 0;
  double bytes = 0;       ///< weights, and cache rows from the ledger
  double operations = 0;  ///< two for each product and sum
  double share = 0;       ///< of the limit that bounds the part; 0 where it moves next to nothing
};

/// One line of the table: decode of `batch` sequences at a context, or prefill of so many tokens.
struct CaseResult {
  std::int64_t context = 0, tokens = 0;
  int batch = 1;
  Spread tokens_s, share;
  double bytes_per_token = 0, operations_per_token = 0;
  double seconds = 0;  ///< timed in all
  std::vector<PartResult> parts;
};

struct BenchBudget {
  int rounds = 5;              ///< readings of each case at least, where the time allows
  double round_seconds = 0.5;  ///< decode steps are repeated to fill a round
  double case_seconds = 20;    ///< no new round starts after this
};

class ModelBench {
 public:
  ModelBench(Model& model, MachineProbe& probe, const BenchBudget& budget,
             std::function<void(const std::string&)> progress);

  /// Contexts beyond the model's are refused with Error(kUsage).
  CaseResult decode(std::int64_t context, int batch);
  CaseResult prefill(std::int64_t tokens);

  /// All readings of the machine so far.
  const std::vector<MachineRates>& machine() const { return machine_; }
  /// Cache bytes of the largest case.
  std::int64_t cache_bytes() const { return cache_bytes_; }

 private:
  class Timing;

  Model& model_;
  MachineProbe& probe_;
  const BenchBudget budget_;
  std::function<void(const std::string&)> progress_;
  std::vector<MachineRates> machine_;
  std::vector<float> logits_;
  std::int64_t cache_bytes_ = 0;
};

}  // namespace seekline
