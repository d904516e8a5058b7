// Engram: n-gram memory rows added to the residual streams through a gate (spec: v41, "Engram").
#pragma once

#include <cstdint>
#include <vector>

#include "attention/batch.h"
#include "checkpoint/deepseek_v41.h"
#include "kernels/compute.h"
#include "model/engram_hash.h"
#include "model/hyper_connection.h"
#include "text/compressed_vocabulary.h"

namespace seekline {

/// The n-gram history of every token of a batch in compressed ids: [tokens, max_ngram], newest first, in the
/// arena. `runs` are the runs of the forward, all tokens; the history before a run comes from its cache.
/// Where there is none, the class of `pad_token`.
std::int32_t* ngram_classes(Arena& arena, std::span<const Run> runs, const CompressedVocabulary& vocabulary,
                            int max_ngram, std::int64_t pad_token);

/// One Engram layer. Immutable.
class Engram {
 public:
  Engram(const EngramWeights& weights, const EngramLayout& layout, const EngramLayout::Layer& layer,
         const HyperConnectionShape& streams);

  /// Table rows of each token -> [tokens, columns]; the disk is asked for them where they may lie there.
  void find_rows(Compute& compute, const std::int32_t* classes, MatrixView<std::int64_t> rows) const;

  /// h_k += gate_k * value for every token; h [tokens, hc * hidden].
  void apply(Compute& compute, MatrixView<const std::int64_t> rows, BlockQuantizer quantizer,
             MatrixView<float> h) const;

 private:
  void ask_for(Compute& compute, MatrixView<const std::int64_t> rows) const;
  void gate_and_add(const Kernels& kernels, const float* key_value, float* h) const;

  const EngramWeights& weights_;
  const EngramLayout& layout_;
  const EngramLayout::Layer& layer_;
  const HyperConnectionShape streams_;
  std::vector<float> qk_weight_;  // q_weight * k_weight [hc, hidden]
};

}  // namespace seekline
