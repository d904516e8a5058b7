// Compression of m tokens into one latent: softmax-gated sums per channel over the members of a group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attention/batch.h"
#include "attention/step_ring.h"
#include "checkpoint/shared_weights.h"
#include "kernels/compute.h"

namespace seekline {

/// How a store's groups are made. With `overlap` (V4's CSA) a group of m tokens gathers 2m members: the first
/// halves of the previous group's rows and the second halves of its own.
struct CompressorShape {
  int tokens_per_group = 1;  ///< m
  int width = 0;             ///< of the latent
  bool overlap = false;
  float eps = 0;  ///< of the norm
};

/// Groups that a step finished (and may write), in batch order, with their normalised latents.
struct Latents {
  struct Group {
    std::int32_t run = 0;
    std::int64_t row = 0;             ///< index in the store
    std::int64_t first_position = 0;  ///< of the group's tokens
  };
  std::span<const Group> groups;
  MatrixView<float> values;  ///< [groups, width]
};

/// Tokens of state that the tail ring of a compressor must hold: everything an unfinished group can still
/// need.
int compressor_tail_rows(const CompressorShape& shape);

/// x [batch.count, hidden] -> latents of the groups that end in this step. `tail` is the ring of (c, z) rows,
/// null where m = 1. Sums are f32 whatever the settings. Groups below the run's write floor are left out.
/// Results live in the caller's arena scope; the tail ring is committed.
Latents compress(Compute& compute, const TokenBatch& batch, const CompressorWeights& weights,
                 const CompressorShape& shape, const Store* tail, MatrixView<const float> x);

/// Encodes values [groups, width of `store`'s rows] as the rows of their groups and counts them in the
/// ledgers.
void append_rows(Compute& compute, const TokenBatch& batch, std::span<const Latents::Group> groups,
                 const Store& store, MatrixView<const float> values);

}  // namespace seekline
