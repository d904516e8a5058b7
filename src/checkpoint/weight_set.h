// Takes tensors out of a checkpoint by name, checks dtype and shape, and remembers what is wrong and what is
// left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/problem_list.h"
#include "formats/weight_view.h"

namespace seekline {

/// The block scales that a quantized linear weight of a family carries.
struct ScaleRule {
  std::string suffix = ".scale";  ///< replaces ".weight": "X.weight" has scales in "X" + suffix
  ScaleKind kind = ScaleKind::kUE8M0;
  int block_rows = 32, block_cols = 32;
};

/// Not thread-safe; used once while a model loads.
class WeightSet {
 public:
  explicit WeightSet(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  bool has(std::string_view name) const { return checkpoint_.find(name) != nullptr; }

  /// A matrix [out, in] of BF16, F16, F32 (no scales), F8_E4M3 with `rule`'s scales, or I8 (packed e2m1) with
  /// one ue8m0 per row and 32 columns in "X.scale". `name` is the full tensor name
  /// ("layers.0.attn.wq_a.weight"). Data and scales may have any alignment.
  WeightView matrix(const std::string& name, std::int64_t out, std::int64_t in, const ScaleRule& rule = {});
  /// The same, but only dtypes without scales are accepted.
  WeightView plain_matrix(const std::string& name, std::int64_t out, std::int64_t in);
  /// BF16, F16 or F32 of the shape given, converted to f32; values that are no numbers are a problem.
  std::vector<float> vector(const std::string& name, const std::vector<std::int64_t>& shape);
  /// I64 of the shape given, each value within [lo, hi].
  std::vector<std::int32_t> integers(const std::string& name, const std::vector<std::int64_t>& shape,
                                     std::int32_t lo, std::int32_t hi);
  /// Marks every tensor whose name starts with `prefix` as present and unused, for the reason given.
  void unused(const std::string& prefix, const std::string& reason);

  void problem(std::string sentence) { problems_.add(std::move(sentence)); }

  struct Unused {
    std::string prefix, reason;
    std::int64_t tensors = 0, bytes = 0;
  };
  /// Ends the loading: tensors that nobody asked for are problems, too, and so are block scales that are no
  /// numbers where the checkpoint is small enough to look at all of them (scale_check.h). Throws
  /// Error(kBadFile) with all problems together.
  std::vector<Unused> finish();

 private:
  const Tensor* take(const std::string& name, const std::vector<std::int64_t>& shape, const char* dtypes);
  bool accept(const Tensor& tensor, const std::vector<std::int64_t>& shape, bool dtype_fits,
              const char* dtypes);
  /// The weight was refused; its scales are not to be called surplus on top of it. Returns an empty view.
  WeightView ignore_scales(const std::string& weight_name, const ScaleRule& rule);
  void take_scales(WeightView& view, const std::string& weight_name, const ScaleRule& rule);

  const Checkpoint& checkpoint_;
  std::vector<bool> taken_;  // one per tensor of the checkpoint, in its order
  std::vector<Unused> unused_;
  ProblemList problems_;
};

/// How many draft stages a checkpoint holds: mtp.0., mtp.1., ... as far as there are tensors of that name.
/// (Configs do not tell: V4-Flash-0731 says 1 and has 3.)
std::int64_t count_draft_stages(const Checkpoint& checkpoint);

}  // namespace seekline
