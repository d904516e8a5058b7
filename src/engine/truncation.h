// What attention over a selection leaves out: the omitted softmax mass, its bound, and the measured change.
#pragma once

#include <cstdint>
#include <vector>

#include "model/taps.h"

namespace seekline {

/// One layer, head and token. With full weights over all eligible rows, the window and the sink, `omitted` is
/// the mass delta of the rows that were not selected, o the output over everything, o_S the renormalised
/// output over what was kept. Then |o - o_S| = delta * |o_rest - o_S| <= 2 * delta * V, V the largest norm of
/// a value.
struct Truncation {
  int layer = 0, head = 0;
  std::int64_t position = 0;
  std::int64_t eligible = 0, selected = 0;
  double omitted = 0;       ///< delta
  double change = 0;        ///< |o - o_S|
  double bound = 0;         ///< 2 * delta * V
  double rest_change = 0;   ///< delta * |o_rest - o_S|, equal to `change` up to rounding
  double engine_error = 0;  ///< distance of the engine's own output from o_S
};

/// Measures tokens from `first_position` on, in f64, from the rows as the cache holds them. For V2-style
/// latents the output is the average of latents, before a head's values are made of it.
class TruncationProbe final : public Taps {
 public:
  explicit TruncationProbe(std::int64_t first_position) : first_position_(first_position) {}

  void floats(const char*, int, const TokenBatch&, MatrixView<const float>) override {}
  void integers(const char*, int, const TokenBatch&, MatrixView<const std::int64_t>) override {}
  void lists(const char*, int, const TokenBatch&, const Selection&) override {}
  void experts(int, const TokenBatch&, const Routing&) override {}
  bool wants_attention() const override { return true; }
  void attention(const AttentionView& view) override;

  /// In order of forwards, layers, tokens, heads.
  const std::vector<Truncation>& found() const { return found_; }

 private:
  std::int64_t first_position_;
  std::vector<Truncation> found_;
};

}  // namespace seekline
