// Which table rows an Engram layer reads for a token: primes, NumPy-exact multipliers, rolling hash (spec:
// v41).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace seekline {

/// `count` draws of NumPy's default_rng(seed).integers(0, bound, count, dtype=int64); bound >= 1.
std::vector<std::int64_t> numpy_integers(std::uint64_t seed, std::int64_t bound, int count);

struct EngramLayout {
  struct Layer {
    std::int64_t layer_id = 0;
    std::vector<std::int64_t> multipliers;  ///< [max_ngram]
    std::vector<std::int64_t> primes;       ///< [(max_ngram - 1) * heads], 2-gram heads first
    std::vector<std::int64_t> offsets;      ///< the same shape, running sums of the primes
    std::int64_t rows = 0;                  ///< sum of the primes = engram_num_embeddings of the layer
  };
  int max_ngram = 0;
  int heads = 0;
  std::vector<Layer> layers;

  int columns() const { return (max_ngram - 1) * heads; }
};

/// Primes come from one walk over all layers in order; `engram_vocab_size` as in the config.
EngramLayout engram_layout(std::span<const std::int64_t> layer_ids, int max_ngram, int heads,
                           std::int64_t engram_vocab_size, std::int64_t compressed_vocab_size);

/// Table rows of one token. classes[i] is the compressed id i positions back, the pad class where there is
/// none (before the start, at or beyond an image position); [max_ngram]. Writes rows[columns()], offsets
/// included.
void engram_rows(const EngramLayout& layout, const EngramLayout::Layer& layer, const std::int32_t* classes,
                 std::int64_t* rows);

}  // namespace seekline
