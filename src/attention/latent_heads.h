// The heads of latent attention (MLA): kv_b_proj turns one latent into every head's key and value, or, used
// from the other side, every head's query into a query of the latent and the latent's average into a value.
#pragma once

#include "formats/weight_view.h"
#include "kernels/compute.h"

namespace seekline {

struct LatentHeads {
  WeightView
      kv_b;  ///< [heads * (nope + value), latent]: of each head W^UK (nope rows), then W^UV (value rows)
  int heads = 0;
  int latent = 0;  ///< kv_lora_rank
  int nope = 0;    ///< channels of a key that come from the latent
  int rope = 0;    ///< rotary channels that all heads share
  int value = 0;   ///< channels of a head's value

  int key_width() const { return nope + rope; }
  int latent_width() const { return latent + rope; }  ///< of an absorbed query and of a main row
  std::int64_t head_rows() const { return nope + value; }
};

/// q [tokens, heads * (nope + rope)] -> [tokens, heads * (latent + rope)] in the arena: of each head
/// q_nope * W^UK, then the rotary channels as they are.
MatrixView<float> absorb_queries(Compute& compute, const LatentHeads& heads, MatrixView<const float> q);

/// u [tokens, heads * latent] -> [tokens, heads * value] in the arena: of each head W^UV * u.
MatrixView<float> unfold_values(Compute& compute, const LatentHeads& heads, MatrixView<const float> u);

}  // namespace seekline
