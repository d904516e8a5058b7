#include "model/latent_cost.h"

#include <algorithm>

#include <fmt/format.h>

namespace seekline {
namespace {

// A product of all heads' halves of kv_b with `tokens` inputs: bound by reading the weight, or by its
// operations.
double kv_b_cost(const LatentHeads& heads, double tokens, const LatentRates& rates) {
  const double operations =
      2.0 * static_cast<double>(heads.heads * heads.head_rows()) * heads.latent * tokens;
  return std::max(operations / rates.product_gflops,
                  static_cast<double>(heads.kv_b.bytes()) / rates.read_gb_s);
}

// Scores and sums of all heads. The last token sees `rows` rows, every other one less than the one behind it.
double attend_cost(const LatentHeads& heads, double tokens, double rows, double channels,
                   const LatentRates& rates) {
  const double seen = std::max(rows - (tokens - 1) / 2, (rows + 1) / 2);  // on average
  return 2.0 * heads.heads * channels * tokens * seen / rates.attend_gflops;
}

}  // namespace

double absorb_cost(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows,
                   const LatentRates& rates) {
  const double t = static_cast<double>(tokens);
  return kv_b_cost(heads, t, rates) +
         attend_cost(heads, t, static_cast<double>(rows), heads.latent_width() + heads.latent, rates);
}

double expand_cost(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows, bool shared_rows,
                   const LatentRates& rates) {
  const double t = static_cast<double>(tokens), n = static_cast<double>(rows);
  const double expansions = shared_rows ? kv_b_cost(heads, n, rates) : t * kv_b_cost(heads, n, rates);
  return expansions + attend_cost(heads, t, n, heads.key_width() + heads.value, rates);
}

LatentOrder cheaper_order(const LatentHeads& heads, std::int64_t tokens, std::int64_t rows,
                          bool shared_rows) {
  return expand_cost(heads, tokens, rows, shared_rows) < absorb_cost(heads, tokens, rows)
             ? LatentOrder::kExpand
             : LatentOrder::kAbsorb;
}

std::int64_t expand_from(const LatentHeads& heads, std::int64_t rows, bool shared_rows) {
  // The difference of the costs grows with the tokens once: halve the interval.
  const auto expands = [&](std::int64_t tokens) {
    return cheaper_order(heads, tokens, rows, shared_rows) == LatentOrder::kExpand;
  };
  if (!expands(rows)) return 0;
  std::int64_t low = 0, high = rows;  // absorb at low, expand at high
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (expands(middle) ? high : low) = middle;
  }
  return high;
}

const char* latent_order_name(LatentOrder order) {
  switch (order) {
    case LatentOrder::kAuto:
      return "auto";
    case LatentOrder::kAbsorb:
      return "absorb";
    case LatentOrder::kExpand:
      return "expand";
    case LatentOrder::kPreMerge:
      return "pre-merge";
    case LatentOrder::kByCost:
      return "by-cost";
  }
  return "";
}

std::vector<std::string> latent_order_notes(const LatentHeads& heads, LatentOrder asked, LatentOrder in_force,
                                            std::int64_t rows, bool shared_rows) {
  const char* how = in_force == LatentOrder::kByCost ? "chosen for each run"
                    : asked == LatentOrder::kAuto    ? "the cheaper one for a decode step, for all tokens"
                                                     : "as asked, for all tokens";
  std::vector<std::string> notes{
      fmt::format("latent order {}: {}", latent_order_name(in_force), how),
      fmt::format(
          "by the cost rule one token that reads {} rows takes {:.3f} ms a layer by absorb and {:.3f} ms by "
          "expand",
          rows, absorb_cost(heads, 1, rows) / 1e6, expand_cost(heads, 1, rows, shared_rows) / 1e6)};
  const std::int64_t from = expand_from(heads, rows, shared_rows);
  notes.push_back(
      from == 0 ? fmt::format("expand is never the cheaper one at {} rows", rows)
                : fmt::format("expand is cheaper in runs of {} tokens and more; latent order by-cost uses "
                              "it there, and then bits depend on how a text is cut into runs",
                              from));
  return notes;
}

}  // namespace seekline
