#include "app/plan_compare.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/plan_text.h"
#include "seekline/accounting.h"

namespace seekline {
namespace {

constexpr std::int64_t kFirstContext = 128, kLastContext = 1'048'576;

// 1 / ratio as people write it: "1/57".
std::string share_of(double part, double whole) {
  const double ratio = whole / part;
  return ratio >= 9.5 ? fmt::format("1/{}", with_commas(std::llround(ratio)))
                      : fmt::format("1/{:.1f}", ratio);
}

// 1137000000 -> "1.137 GB", decimal as the papers count.
std::string decimal_bytes(std::int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (b >= 1e9) return fmt::format("{:.3f} GB", b / 1e9);
  if (b >= 1e6) return fmt::format("{:.2f} MB", b / 1e6);
  if (b >= 1e3) return fmt::format("{:.1f} kB", b / 1e3);
  return fmt::format("{} B", bytes);
}

std::string stored_table(const std::vector<NamedPlan>& plans) {
  const double first = plans.front().plan.stored_bytes_per_token();
  std::string text =
      fmt::format("\n{:<18} {:>16} {:>10} {:>16} {:>14} {:>16} {:>17}\n", "stored", "bytes per token",
                  "of first", "all in bf16", "windows", "rows = windows", "below previous");
  const CachePlan* before = nullptr;
  for (const NamedPlan& p : plans) {
    const double stored = p.plan.stored_bytes_per_token();
    const std::int64_t crossover = window_crossover(p.plan);
    std::string below = "-";
    if (before) {
      const std::int64_t from = smaller_from(p.plan, *before);
      below = from < 0 ? "never" : fmt::format("from {}", with_commas(from));
    }
    text += fmt::format("{:<18} {:>16} {:>10} {:>16} {:>14} {:>16} {:>17}\n", p.name, decimal_number(stored),
                        share_of(stored, first), decimal_number(p.bf16.stored_bytes_per_token()),
                        with_commas(p.plan.window_bytes()),
                        crossover > 0 ? "at " + with_commas(crossover) : "-", below);
    before = &p.plan;
  }
  return text;
}

std::string read_table(const std::vector<NamedPlan>& plans, std::int64_t context) {
  std::string text = fmt::format("\n{:<18} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}\n",
                                 fmt::format("at {}", with_commas(context)), "cache", "read a token",
                                 "main rows", "windows", "index keys", "read in bf16");
  for (const NamedPlan& p : plans) {
    const Reads reads = p.plan.reads(context);
    text += fmt::format("{:<18} {:>14} {:>14} {:>14} {:>14} {:>14} {:>14}\n", p.name,
                        decimal_bytes(cache_bytes(p.plan, context)), decimal_bytes(reads.total()),
                        decimal_bytes(reads.main), decimal_bytes(reads.window),
                        decimal_bytes(reads.index_key), decimal_bytes(p.bf16.reads(context).total()));
  }
  return text;
}

std::string work_table(const std::vector<NamedPlan>& plans, std::int64_t context) {
  std::string text =
      fmt::format("\n{:<18} {:>14} {:>14} {:>14} {:>14} {:>16} {:>16}\n", "work", "rows scored",
                  "without pool", "Gmac a token", "by precision", "prefill evals", "decoder last");
  for (const NamedPlan& p : plans) {
    const SearchWork search = search_work(p.plan, context);
    const DecodeWork::Sum work = decode_work(p.plan, context).total();
    const PrefillWork prefill = prefill_work(p.plan, context);
    text += fmt::format("{:<18} {:>14} {:>14} {:>14.3f} {:>14.3f} {:>16} {:>16}\n", p.name,
                        with_commas(search.scored), with_commas(search.without_pool), work.operations / 1e9,
                        work.weighted / 1e9, with_commas(prefill.all), with_commas(prefill.decoder_last));
  }
  return text;
}

}  // namespace

std::vector<std::int64_t> curve_contexts() {
  std::vector<std::int64_t> contexts;
  for (std::int64_t n = kFirstContext; n <= kLastContext; n *= 2) contexts.push_back(n);
  return contexts;
}

std::string compare_text(const std::vector<NamedPlan>& plans, std::int64_t context) {
  return fmt::format("cache by generation, from the cache plans\n{}{}{}", stored_table(plans),
                     read_table(plans, context), work_table(plans, context));
}

nlohmann::json compare_json(const std::vector<NamedPlan>& plans, std::int64_t context) {
  nlohmann::json models = nlohmann::json::array();
  const NamedPlan* before = nullptr;
  for (const NamedPlan& p : plans) {
    nlohmann::json model = plan_json(p.plan, context);
    model.erase("stores");
    model.erase("layers");
    model["name"] = p.name;
    model["bf16"] = {{"stored_bytes_per_token", p.bf16.stored_bytes_per_token()},
                     {"read_bytes", p.bf16.reads(context).total()}};
    model["of_first"] = plans.front().plan.stored_bytes_per_token() / p.plan.stored_bytes_per_token();
    if (before) model["smaller_than_previous_from"] = smaller_from(p.plan, before->plan);
    models.push_back(std::move(model));
    before = &p;
  }
  return {{"context", context}, {"models", std::move(models)}};
}

std::string compare_csv(const std::vector<NamedPlan>& plans) {
  std::string text =
      "model,context,stored_bytes_per_token,stored_bytes_per_token_bf16,window_bytes,cache_bytes,tail_bytes,"
      "read_main,"
      "read_window,read_index_key,read_total,read_total_bf16,scored_rows,scored_rows_without_pool,"
      "prefill_evaluations,prefill_evaluations_decoder_last,decode_operations,decode_operations_by_"
      "precision\n";
  for (const NamedPlan& p : plans) {
    for (const std::int64_t n : curve_contexts()) {
      const Reads reads = p.plan.reads(n);
      const SearchWork search = search_work(p.plan, n);
      const PrefillWork prefill = prefill_work(p.plan, n);
      const DecodeWork::Sum work = decode_work(p.plan, n).total();
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.0f},{:.0f}\n", p.name, n,
                      p.plan.stored_bytes_per_token(), p.bf16.stored_bytes_per_token(), p.plan.window_bytes(),
                      cache_bytes(p.plan, n), p.plan.tail_bytes(), reads.main, reads.window, reads.index_key,
                      reads.total(), p.bf16.reads(n).total(), search.scored, search.without_pool, prefill.all,
                      prefill.decoder_last, work.operations, work.weighted);
    }
  }
  return text;
}

}  // namespace seekline
