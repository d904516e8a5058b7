#include "checkpoint/tensor_visitor.h"

namespace seekline {
namespace {

constexpr std::int64_t kScaledColumns = 32;  // of e2m1 weights and of tables

std::int64_t blocks(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// "X.weight" -> "X" + suffix
std::string scale_name(const std::string& weight_name, const std::string& suffix) {
  return weight_name.substr(0, weight_name.size() - std::string_view(".weight").size()) + suffix;
}

}  // namespace

std::int64_t TensorSpec::bytes() const {
  auto count = static_cast<std::int64_t>(dtype_bytes(dtype));
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

void LoadVisitor::linear(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) {
  weight = rule_ ? set_.matrix(name, out, in, *rule_) : set_.plain_matrix(name, out, in);
}

void LoadVisitor::expert(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) {
  linear(weight, name, out, in);
}

void LoadVisitor::table(WeightView& weight, const std::string& name, std::int64_t rows, std::int64_t cols) {
  weight = set_.matrix(name, rows, cols, {".scale", ScaleKind::kUE8M0, 1, kScaledColumns});
}

void LoadVisitor::plain(WeightView& weight, const std::string& name, DType, std::int64_t out, std::int64_t in,
                        TensorRole) {
  weight = set_.plain_matrix(name, out, in);
}

void LoadVisitor::vector(std::vector<float>& values, const std::string& name, DType,
                         const std::vector<std::int64_t>& shape, TensorRole, bool optional) {
  if (!optional || set_.has(name)) values = set_.vector(name, shape);
}

void LoadVisitor::expert_ids(std::vector<std::int32_t>& ids, const std::string& name, std::int64_t rows,
                             std::int64_t cols, std::int64_t experts) {
  ids = set_.integers(name, {rows, cols}, 0, static_cast<std::int32_t>(experts - 1));
}

void SpecVisitor::add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, TensorRole role,
                      std::int64_t fan_in) {
  specs_.push_back({name, dtype, std::move(shape), role, fan_in, shard_});
}

void SpecVisitor::linear(WeightView&, const std::string& name, std::int64_t out, std::int64_t in) {
  add(name, linears_, {out, in}, TensorRole::kLinear, in);
  if (linears_ != DType::kF8E4M3) return;
  const bool f32 = rule_.kind == ScaleKind::kF32;
  add(scale_name(name, rule_.suffix), f32 ? DType::kF32 : DType::kF8E8M0,
      {blocks(out, rule_.block_rows), blocks(in, rule_.block_cols)},
      f32 ? TensorRole::kInverseScale : TensorRole::kE4M3Scale, in);
}

void SpecVisitor::expert(WeightView& weight, const std::string& name, std::int64_t out, std::int64_t in) {
  if (experts_ == Experts::kAsLinears) return linear(weight, name, out, in);
  add(name, DType::kI8, {out, in / 2}, TensorRole::kLinear, in);
  add(scale_name(name, ".scale"), DType::kF8E8M0, {out, blocks(in, kScaledColumns)}, TensorRole::kE2M1Scale,
      in);
}

void SpecVisitor::table(WeightView&, const std::string& name, std::int64_t rows, std::int64_t cols) {
  add(name, DType::kF8E4M3, {rows, cols}, TensorRole::kTable, 0);
  add(scale_name(name, ".scale"), DType::kF8E8M0, {rows, blocks(cols, kScaledColumns)},
      TensorRole::kTableScale, 0);
}

void SpecVisitor::plain(WeightView&, const std::string& name, DType dtype, std::int64_t out, std::int64_t in,
                        TensorRole role) {
  add(name, dtype, {out, in}, role, role == TensorRole::kLinear ? in : 0);
}

void SpecVisitor::vector(std::vector<float>&, const std::string& name, DType dtype,
                         const std::vector<std::int64_t>& shape, TensorRole role, bool) {
  add(name, dtype, shape, role, 0);
}

void SpecVisitor::expert_ids(std::vector<std::int32_t>&, const std::string& name, std::int64_t rows,
                             std::int64_t cols, std::int64_t experts) {
  add(name, DType::kI64, {rows, cols}, TensorRole::kTokenExperts, experts);
}

}  // namespace seekline
