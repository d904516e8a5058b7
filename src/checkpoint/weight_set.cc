#include "checkpoint/weight_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/scale_check.h"
#include "formats/elements.h"

namespace seekline {
namespace {

bool is_plain(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32; }

WeightKind plain_kind(DType dtype) {
  return dtype == DType::kBF16  ? WeightKind::kBF16
         : dtype == DType::kF16 ? WeightKind::kF16
                                : WeightKind::kF32;
}

WeightView view_of(const Tensor& tensor, WeightKind kind, std::int64_t rows, std::int64_t cols) {
  WeightView view;
  view.kind = kind;
  view.rows = rows;
  view.cols = cols;
  view.data = tensor.data;
  return view;
}

float plain_value(const Tensor& tensor, std::int64_t index) {
  if (tensor.dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, tensor.data + index * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, tensor.data + index * 2, 2);
  return tensor.dtype == DType::kBF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

std::string without_weight(const std::string& name) {
  constexpr std::string_view kEnd = ".weight";
  return name.ends_with(kEnd) ? name.substr(0, name.size() - kEnd.size()) : name;
}

}  // namespace

WeightSet::WeightSet(const Checkpoint& checkpoint)
    : checkpoint_(checkpoint), taken_(checkpoint.tensors().size()) {}

bool WeightSet::accept(const Tensor& tensor, const std::vector<std::int64_t>& shape, bool dtype_fits,
                       const char* dtypes) {
  if (dtype_fits && tensor.shape == shape) return true;
  problem(fmt::format("tensor '{}' in {}: found {} {}, expected {} {}", tensor.name,
                      checkpoint_.file_name(tensor), dtype_name(tensor.dtype), tensor.shape_text(), dtypes,
                      shape_text(shape)));
  return false;
}

const Tensor* WeightSet::take(const std::string& name, const std::vector<std::int64_t>& shape,
                              const char* dtypes) {
  const Tensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    problem(fmt::format("tensor '{}' is missing (expected {} {})", name, dtypes, shape_text(shape)));
    return nullptr;
  }
  taken_[static_cast<std::size_t>(tensor - checkpoint_.tensors().data())] = true;
  return tensor;
}

void WeightSet::take_scales(WeightView& view, const std::string& weight_name, const ScaleRule& rule) {
  view.scale_kind = rule.kind;
  view.block_rows = rule.block_rows;
  view.block_cols = rule.block_cols;
  const bool f32 = rule.kind == ScaleKind::kF32;
  const std::vector<std::int64_t> shape = {view.scale_rows(), view.scale_cols()};
  const char* expected = f32 ? "F32" : "F8_E8M0";
  const Tensor* scales = take(without_weight(weight_name) + rule.suffix, shape, expected);
  if (scales == nullptr) return;
  if (accept(*scales, shape, scales->dtype == (f32 ? DType::kF32 : DType::kF8E8M0), expected))
    view.scales = scales->data;
}

WeightView WeightSet::matrix(const std::string& name, std::int64_t out, std::int64_t in,
                             const ScaleRule& rule) {
  constexpr const char* kDtypes = "F8_E4M3, I8 (two e2m1), BF16, F16 or F32";
  const Tensor* tensor = take(name, {out, in}, kDtypes);
  if (tensor == nullptr) return ignore_scales(name, rule);
  if (tensor->dtype == DType::kI8) {
    const ScaleRule packed{".scale", ScaleKind::kUE8M0, 1, 32};
    if (!accept(*tensor, {out, in / 2}, in % 32 == 0, "I8 (two e2m1)")) return ignore_scales(name, packed);
    WeightView view = view_of(*tensor, WeightKind::kE2M1, out, in);
    take_scales(view, name, packed);
    return view;
  }
  const bool e4m3 = tensor->dtype == DType::kF8E4M3;
  if (!accept(*tensor, {out, in}, e4m3 || is_plain(tensor->dtype), kDtypes)) return ignore_scales(name, rule);
  if (!e4m3) return view_of(*tensor, plain_kind(tensor->dtype), out, in);
  WeightView view = view_of(*tensor, WeightKind::kE4M3, out, in);
  take_scales(view, name, rule);
  return view;
}

WeightView WeightSet::ignore_scales(const std::string& weight_name, const ScaleRule& rule) {
  if (const Tensor* scales = checkpoint_.find(without_weight(weight_name) + rule.suffix))
    taken_[static_cast<std::size_t>(scales - checkpoint_.tensors().data())] = true;
  return {};
}

WeightView WeightSet::plain_matrix(const std::string& name, std::int64_t out, std::int64_t in) {
  constexpr const char* kDtypes = "BF16, F16 or F32";
  const Tensor* tensor = take(name, {out, in}, kDtypes);
  if (tensor == nullptr || !accept(*tensor, {out, in}, is_plain(tensor->dtype), kDtypes)) return {};
  return view_of(*tensor, plain_kind(tensor->dtype), out, in);
}

std::vector<float> WeightSet::vector(const std::string& name, const std::vector<std::int64_t>& shape) {
  constexpr const char* kDtypes = "BF16, F16 or F32";
  std::vector<float> values;
  const Tensor* tensor = take(name, shape, kDtypes);
  if (tensor == nullptr || !accept(*tensor, shape, is_plain(tensor->dtype), kDtypes)) return values;
  values.resize(static_cast<std::size_t>(tensor->elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = plain_value(*tensor, static_cast<std::int64_t>(i));
    if (std::isfinite(values[i])) continue;
    problem(fmt::format("tensor '{}' in {}: element {} is {}, expected a finite number", name,
                        checkpoint_.file_name(*tensor), i, values[i]));
    break;
  }
  return values;
}

std::vector<std::int32_t> WeightSet::integers(const std::string& name, const std::vector<std::int64_t>& shape,
                                              std::int32_t lo, std::int32_t hi) {
  std::vector<std::int32_t> values;
  const Tensor* tensor = take(name, shape, "I64");
  if (tensor == nullptr || !accept(*tensor, shape, tensor->dtype == DType::kI64, "I64")) return values;
  values.resize(static_cast<std::size_t>(tensor->elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t value = 0;
    std::memcpy(&value, tensor->data + i * 8, 8);
    if (value < lo || value > hi) {
      problem(fmt::format("tensor '{}' in {}: element {} is {}, expected {} to {}", name,
                          checkpoint_.file_name(*tensor), i, value, lo, hi));
      break;
    }
    values[i] = static_cast<std::int32_t>(value);
  }
  return values;
}

void WeightSet::unused(const std::string& prefix, const std::string& reason) {
  const auto& tensors = checkpoint_.tensors();
  Unused entry{prefix, reason, 0, 0};
  auto at =
      std::lower_bound(tensors.begin(), tensors.end(), prefix,
                       [](const Tensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
  for (; at != tensors.end() && at->name.starts_with(prefix); ++at) {
    const auto index = static_cast<std::size_t>(at - tensors.begin());
    if (taken_[index]) continue;
    taken_[index] = true;
    ++entry.tensors;
    entry.bytes += at->bytes;
  }
  if (entry.tensors > 0) unused_.push_back(std::move(entry));
}

std::vector<WeightSet::Unused> WeightSet::finish() {
  const auto& tensors = checkpoint_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!taken_[i])
      problem(fmt::format("tensor {} in {}: is not one that a model with this config has",
                          in_quotes(tensors[i].name), checkpoint_.file_name(tensors[i])));
  if (scale_bytes(checkpoint_) <= kScaleBytesCheckedAtLoad)
    for (std::string& sentence : find_bad_scales(checkpoint_)) problem(std::move(sentence));
  problems_.throw_if_any(checkpoint_.folder().string());
  return std::move(unused_);
}

std::int64_t count_draft_stages(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  std::int64_t stages = 0;
  for (;; ++stages) {
    const std::string prefix = fmt::format("mtp.{}.", stages);
    const auto at = std::lower_bound(
        tensors.begin(), tensors.end(), prefix,
        [](const Tensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
    if (at == tensors.end() || !at->name.starts_with(prefix)) return stages;
  }
}

}  // namespace seekline
