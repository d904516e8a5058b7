// Adds up the weights of one part of a model.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/shared_weights.h"
#include "model/network.h"

namespace seekline {

/// Adds up matrices and vectors of one part. A tensor with scales counts as two, as in the file.
class PartSum {
 public:
  explicit PartSum(std::string name) { part_.name = std::move(name); }

  void matrix(const WeightView& w, double share_per_token = 1) {
    if (w.empty()) return;
    part_.tensors += w.scale_kind == ScaleKind::kNone ? 1 : 2;
    part_.bytes += w.bytes();
    per_token_ += share_per_token * static_cast<double>(w.bytes());
  }
  void vector(const std::vector<float>& v, std::int64_t element_bytes) {
    if (v.empty()) return;
    ++part_.tensors;
    part_.bytes += static_cast<std::int64_t>(v.size()) * element_bytes;
    per_token_ += static_cast<double>(v.size()) * static_cast<double>(element_bytes);
  }
  /// Ids that a token looks up, `element_bytes` each in the file.
  void table(const std::vector<std::int32_t>& ids, std::int64_t element_bytes, double share_per_token) {
    if (ids.empty()) return;
    const std::int64_t bytes = static_cast<std::int64_t>(ids.size()) * element_bytes;
    ++part_.tensors;
    part_.bytes += bytes;
    per_token_ += share_per_token * static_cast<double>(bytes);
  }
  void stream(const HyperConnectionWeights& hc) {
    matrix(hc.fn);
    vector(hc.base, 4);
    vector(hc.scale, 4);
  }
  WeightPart done() {
    part_.bytes_per_token = std::llround(per_token_);
    return part_;
  }

 private:
  WeightPart part_;
  double per_token_ = 0;
};

}  // namespace seekline
