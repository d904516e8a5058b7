// One description of a family's tensors, walked twice: to load them, and to say what they are.
//
// A family describes its tensors once, as calls of a visitor with the place for the weight, the name and the
// shape. Loading and listing can then never disagree about a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/tensor_spec.h"
#include "checkpoint/weight_set.h"

namespace seekline {

/// Shapes are logical: [out, in] of the matrix whatever its packing.
class TensorVisitor {
 public:
  virtual ~TensorVisitor() = default;

  /// A linear weight that releases quantize to e4m3 with the family's block scales.
  virtual void linear(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) = 0;
  /// A linear weight of a routed expert, released as packed e2m1 or as `linear`, whatever the family does.
  virtual void expert(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) = 0;
  /// An e4m3 table with one scale per row and 32 columns.
  virtual void table(WeightView& weight, const std::string& name, std::int64_t rows, std::int64_t cols) = 0;
  /// A matrix without scales.
  virtual void plain(WeightView& weight, const std::string& name, DType dtype, std::int64_t out,
                     std::int64_t in, TensorRole role = TensorRole::kLinear) = 0;
  /// Numbers that are kept in f32. An optional tensor that a checkpoint lacks leaves `values` empty.
  virtual void vector(std::vector<float>& values, const std::string& name, DType dtype,
                      const std::vector<std::int64_t>& shape, TensorRole role, bool optional = false) = 0;
  /// Expert ids below `experts`, I64 [rows, cols].
  virtual void expert_ids(std::vector<std::int32_t>& ids, const std::string& name, std::int64_t rows,
                          std::int64_t cols, std::int64_t experts) = 0;

  void norm(std::vector<float>& values, const std::string& name, std::int64_t width,
            DType dtype = DType::kBF16) {
    vector(values, name, dtype, {width}, TensorRole::kNorm);
  }
};

/// Takes every tensor from a checkpoint; what does not fit is noted in the set.
class LoadVisitor : public TensorVisitor {
 public:
  /// `rule`: the block scales of the family's e4m3 linears; without one, linears must be plain.
  explicit LoadVisitor(WeightSet& set, std::optional<ScaleRule> rule = std::nullopt)
      : set_(set), rule_(std::move(rule)) {}

  void linear(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) override;
  void expert(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) override;
  void table(WeightView& weight, const std::string& name, std::int64_t rows, std::int64_t cols) override;
  void plain(WeightView& weight, const std::string& name, DType dtype, std::int64_t out, std::int64_t in,
             TensorRole role) override;
  void vector(std::vector<float>& values, const std::string& name, DType dtype,
              const std::vector<std::int64_t>& shape, TensorRole role, bool optional) override;
  void expert_ids(std::vector<std::int32_t>& ids, const std::string& name, std::int64_t rows,
                  std::int64_t cols, std::int64_t experts) override;

 private:
  WeightSet& set_;
  std::optional<ScaleRule> rule_;
};

/// Lists every tensor with the dtypes of the release.
class SpecVisitor : public TensorVisitor {
 public:
  enum class Experts : std::uint8_t { kAsLinears, kE2M1 };
  /// `linears`: F32, F16, BF16, or F8_E4M3 with `rule`'s scales.
  explicit SpecVisitor(DType linears, Experts experts = Experts::kAsLinears, ScaleRule rule = {})
      : linears_(linears), experts_(experts), rule_(std::move(rule)) {}

  /// What follows belongs to the next shard.
  void next_shard() { ++shard_; }
  std::vector<TensorSpec> take() { return std::move(specs_); }

  void linear(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) override;
  void expert(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) override;
  void table(WeightView& weight, const std::string& name, std::int64_t rows, std::int64_t cols) override;
  void plain(WeightView& weight, const std::string& name, DType dtype, std::int64_t out, std::int64_t in,
             TensorRole role) override;
  void vector(std::vector<float>& values, const std::string& name, DType dtype,
              const std::vector<std::int64_t>& shape, TensorRole role, bool optional) override;
  void expert_ids(std::vector<std::int32_t>& ids, const std::string& name, std::int64_t rows,
                  std::int64_t cols, std::int64_t experts) override;

 private:
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, TensorRole role,
           std::int64_t fan_in);

  DType linears_;
  Experts experts_;
  ScaleRule rule_;
  int shard_ = 0;
  std::vector<TensorSpec> specs_;
};

}  // namespace seekline
