#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/bench_reuse.h"
#include "app/commands.h"

namespace seekline {

const char* mode_name(DecoderMode mode) { return mode == DecoderMode::kCed ? "ced" : "exact"; }

std::string reuse_bench_text(const ReuseResult& r) {
  const auto ms = [](double seconds) { return fmt::format("{:.1f}", seconds * 1e3); };
  std::string text = fmt::format("\na prompt of {} tokens in chunks of {}\n", with_commas(r.tokens), r.chunk);
  constexpr auto kExact = static_cast<std::size_t>(DecoderMode::kExact),
                 kCed = static_cast<std::size_t>(DecoderMode::kCed);
  if (r.prefill[kExact].clock > 0) {
    for (const std::size_t m : {kExact, kCed})
      text += fmt::format("  {:<8} {:>10.2f} s, {:>10.2f} s of processors, {:>14} token-layer evaluations\n",
                          mode_name(static_cast<DecoderMode>(m)), r.prefill[m].clock, r.prefill[m].processor,
                          with_commas(r.evaluations[m]));
    text += fmt::format("  ced / exact {:.3f} by the clock, {:.3f} by processors{}\n",
                        r.prefill[kCed].clock / r.prefill[kExact].clock,
                        r.prefill[kCed].processor / r.prefill[kExact].processor,
                        r.sampled_chunks > 0 ? fmt::format(", reckoned from {} chunks of it", r.chunks.size())
                                             : std::string());
  }
  for (const ReuseResult::Chunk& c : r.chunks)
    text += fmt::format("    chunk at {:>9}: exact {:>8} ms ({} of processors), ced {:>8} ({})\n",
                        with_commas(c.first), ms(c.took[kExact].clock), ms(c.took[kExact].processor),
                        ms(c.took[kCed].clock), ms(c.took[kCed].processor));
  if (!r.ways.empty()) {
    text += fmt::format(
        "one token more behind {} tokens: ms to the first token, median (min .. max); of all in memory by "
        "the clock, by processors\n",
        with_commas(r.tokens));
    for (const WayResult& w : r.ways)
      text += fmt::format("  {:<44} {:>5} tokens  {:>9} ({} .. {})  {:.3f}, {:.3f}\n", w.name,
                          with_commas(w.tokens), ms(w.clock.median), ms(w.clock.min), ms(w.clock.max),
                          w.of_first.clock, w.of_first.processor);
    text += fmt::format("store: {} bytes in use, {:.1f} a token\n", with_commas(r.stored_bytes),
                        static_cast<double>(r.stored_bytes) / static_cast<double>(r.tokens));
  }
  if (r.steps > 0)
    text += fmt::format(
        "decode, rounds of {} steps: {} ms a step ({} .. {}) alone, {} ({} .. {}) while {} tokens and each "
        "new "
        "one are written: {:.3f} of the speed\n",
        r.steps, ms(r.quiet_step.median), ms(r.quiet_step.min), ms(r.quiet_step.max),
        ms(r.writing_step.median), ms(r.writing_step.min), ms(r.writing_step.max),
        with_commas(std::min(r.tokens, kReuseHandedOver)), r.quiet_step.median / r.writing_step.median);
  return text;
}

nlohmann::json reuse_bench_json(const ReuseResult& r) {
  nlohmann::json ways = nlohmann::json::array();
  for (const WayResult& w : r.ways)
    ways.push_back({{"way", w.name},
                    {"tokens", w.tokens},
                    {"seconds", w.clock.median},
                    {"seconds_min", w.clock.min},
                    {"seconds_max", w.clock.max},
                    {"processor_seconds", w.processor.median},
                    {"of_memory", w.of_first.clock},
                    {"of_memory_by_processors", w.of_first.processor}});
  const Took &exact = r.prefill[static_cast<std::size_t>(DecoderMode::kExact)],
             &ced = r.prefill[static_cast<std::size_t>(DecoderMode::kCed)];
  return {{"tokens", r.tokens},
          {"chunk", r.chunk},
          {"sampled_chunks", r.sampled_chunks},
          {"exact_seconds", exact.clock},
          {"exact_processor_seconds", exact.processor},
          {"ced_seconds", ced.clock},
          {"ced_processor_seconds", ced.processor},
          {"exact_evaluations", r.evaluations[static_cast<std::size_t>(DecoderMode::kExact)]},
          {"ced_evaluations", r.evaluations[static_cast<std::size_t>(DecoderMode::kCed)]},
          {"ways", ways},
          {"stored_bytes", r.stored_bytes},
          {"steps", r.steps},
          {"quiet_step_seconds", r.quiet_step.median},
          {"writing_step_seconds", r.writing_step.median}};
}

}  // namespace seekline
