// What the orders of latent attention cost: the rule by which one is chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/latent_heads.h"
#include "seekline/settings.h"

namespace seekline {

/// Rates that the rule weighs operations with. Only their ratios matter to a choice. Measured by
/// bench/latent_order_bench.cc (docs/mla-dsa.md has the figures); fixed here, since a choice that followed
/// the day's timings would not give the same bits twice.
struct LatentRates {
  double attend_gflops = 0;   ///< scores and sums over decoded rows
  double product_gflops = 0;  ///< products with many tokens; of expanded rows, with their attention tiles
  double read_gb_s = 0;       ///< products with one token read their weights
};
inline constexpr LatentRates kMeasuredRates{155, 140, 20};

/// Time in ns that one layer's attention takes beyond what the orders have in common, for `tokens` new tokens
/// whose last one reads `rows` rows. `shared_rows`: the tokens read the same rows (all of them), so that
/// expanding serves all; otherwise each expands its own selection.
double absorb_cost(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows,
                   const LatentRates& rates = kMeasuredRates);
double expand_cost(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows, bool shared_rows,
                   const LatentRates& rates = kMeasuredRates);

/// The cheaper of absorb and expand.
LatentOrder cheaper_order(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows, bool shared_rows);

/// New tokens in one run, at the end of `rows` rows, from which on expand is cheaper; 0: never.
std::int64_t expand_from(const LatentHeads& heads, std::int64_t rows, bool shared_rows);

const char* latent_order_name(LatentOrder order);

/// For people: the order in force, what it and the other cost at `rows` rows, and from where on that turns
/// around.
std::vector<std::string> latent_order_notes(const LatentHeads& heads, LatentOrder asked, LatentOrder in_force,
                                            std::int64_t rows, bool shared_rows);

}  // namespace seekline
