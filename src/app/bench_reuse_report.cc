#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/bench_reuse.h"
#include "app/commands.h"

namespace seekline {

const char* mode_name(DecoderMode mode) { return mode == DecoderMode::kCed ? "ced" : "exact"; }

std::string reuse_bench_text(const ReuseResult& r) {
  const auto ms = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e3); };
  std::string text = fmt::format("\na prompt of {} tokens in chunks of {}\n", with_commas(r.tokens), r.chunk);
  if (r.prefill_seconds[0] > 0) {
    for (const DecoderMode mode : {DecoderMode::kExact, DecoderMode::kCed}) {
      const auto m = static_cast<std::size_t>(mode);
      text += fmt::format("  {:<44} {:>10} s  {:>14} token-layer evaluations\n", mode_name(mode),
                          fmt::format("{:.2f}", r.prefill_seconds[m]), with_commas(r.evaluations[m]));
    }
    text +=
        fmt::format("  ced / exact {:.3f}{}\n",
                    r.prefill_seconds[static_cast<std::size_t>(DecoderMode::kCed)] /
                        r.prefill_seconds[static_cast<std::size_t>(DecoderMode::kExact)],
                    r.sampled_chunks > 0 ? fmt::format(", reckoned from {} chunks of it", r.sampled_chunks)
                                         : std::string());
  }
  text += fmt::format("one token more behind {} tokens: ms to the first token, median (min .. max)\n",
                      with_commas(r.tokens));
  for (const WayResult& w : r.ways)
    text += fmt::format("  {:<44} {:>5} tokens  {:>9} ({} .. {})  {:.3f}\n", w.name, with_commas(w.tokens),
                        ms(w.seconds.median), ms(w.seconds.min), ms(w.seconds.max), w.of_first);
  text += fmt::format("store: {} bytes in use, {:.1f} a token\n", with_commas(r.stored_bytes),
                      static_cast<double>(r.stored_bytes) / static_cast<double>(r.tokens));
  text += fmt::format(
      "decode, rounds of {} steps: {} ms a step ({} .. {}) alone, {} ({} .. {}) while {} tokens and each new "
      "one are written: {:.3f} of the speed\n",
      r.steps, ms(r.quiet_step.median), ms(r.quiet_step.min), ms(r.quiet_step.max), ms(r.writing_step.median),
      ms(r.writing_step.min), ms(r.writing_step.max), with_commas(std::min(r.tokens, kReuseHandedOver)),
      r.quiet_step.median / r.writing_step.median);
  return text;
}

nlohmann::json reuse_bench_json(const ReuseResult& r) {
  nlohmann::json ways = nlohmann::json::array();
  for (const WayResult& w : r.ways)
    ways.push_back({{"way", w.name},
                    {"tokens", w.tokens},
                    {"seconds", w.seconds.median},
                    {"seconds_min", w.seconds.min},
                    {"seconds_max", w.seconds.max},
                    {"of_memory", w.of_first}});
  return {{"tokens", r.tokens},
          {"chunk", r.chunk},
          {"sampled_chunks", r.sampled_chunks},
          {"exact_seconds", r.prefill_seconds[static_cast<std::size_t>(DecoderMode::kExact)]},
          {"ced_seconds", r.prefill_seconds[static_cast<std::size_t>(DecoderMode::kCed)]},
          {"exact_evaluations", r.evaluations[static_cast<std::size_t>(DecoderMode::kExact)]},
          {"ced_evaluations", r.evaluations[static_cast<std::size_t>(DecoderMode::kCed)]},
          {"ways", ways},
          {"stored_bytes", r.stored_bytes},
          {"steps", r.steps},
          {"quiet_step_seconds", r.quiet_step.median},
          {"writing_step_seconds", r.writing_step.median}};
}

}  // namespace seekline
