#include "app/bench_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"

namespace seekline {
namespace {

struct Rates {
  Spread read, bf16, int8;
};

Rates rates_of(const std::vector<MachineRates>& machine) {
  std::vector<double> read, bf16, int8;
  for (const MachineRates& m : machine) {
    read.push_back(m.read_bytes_s * 1e-9);
    bf16.push_back(m.bf16_ops_s * 1e-9);
    int8.push_back(m.int8_ops_s * 1e-9);
  }
  return {spread_of(read), spread_of(bf16), spread_of(int8)};
}

std::string spread_text(const Spread& s, int digits) {
  return fmt::format("{:.{}f} ({:.{}f} .. {:.{}f})", s.median, digits, s.min, digits, s.max, digits);
}

std::string case_text(const CaseResult& c) {
  const std::string name =
      c.tokens > 0 ? fmt::format("prefill of {} tokens", with_commas(c.tokens))
                   : fmt::format("decode at {} tokens, {} together", with_commas(c.context), c.batch);
  std::string text =
      fmt::format("\n{}: {} tokens/s, share {}\n", name, spread_text(c.tokens_s, 2), spread_text(c.share, 2));
  text += fmt::format("  {:<24} {:>8} {:>9} {:>16} {:>14} {:>7}\n", "part", "ms", "of time", "bytes/token",
                      "Mop/token", "share");
  const double tokens = c.tokens > 0 ? static_cast<double>(c.tokens) : static_cast<double>(c.batch);
  double seconds = 0, parts_bytes = 0;
  for (const PartResult& p : c.parts) {
    seconds += p.seconds;
    parts_bytes += p.bytes;
  }
  // Sums of parts are over all timed steps; the totals per token say how many tokens those were.
  const double timed = c.bytes_per_token > 0 ? parts_bytes / c.bytes_per_token : tokens;
  for (const PartResult& p : c.parts)
    text += fmt::format("  {:<24} {:>8.2f} {:>8.1f}% {:>16} {:>14.2f} {:>7}\n", step_part_name(p.part),
                        p.seconds / timed * tokens * 1e3, 100 * p.seconds / seconds,
                        with_commas(static_cast<std::int64_t>(p.bytes / timed)), p.operations / timed * 1e-6,
                        p.share > 0.005 ? fmt::format("{:.2f}", p.share) : "");
  text += fmt::format("  {:<24} {:>8.2f} {:>9} {:>16} {:>14.2f} {:>7.2f}\n", "a step",
                      seconds / timed * tokens * 1e3, "",
                      with_commas(static_cast<std::int64_t>(c.bytes_per_token)),
                      c.operations_per_token * 1e-6, c.share.median);
  return text;
}

nlohmann::json case_json(const CaseResult& c) {
  nlohmann::json parts = nlohmann::json::array();
  double seconds = 0;
  for (const PartResult& p : c.parts) seconds += p.seconds;
  for (const PartResult& p : c.parts)
    parts.push_back({{"part", step_part_name(p.part)},
                     {"time_fraction", seconds > 0 ? p.seconds / seconds : 0},
                     {"seconds", p.seconds},
                     {"bytes", p.bytes},
                     {"operations", p.operations},
                     {"share", p.share}});
  return {{"tokens_s", c.tokens_s.median},
          {"tokens_s_min", c.tokens_s.min},
          {"tokens_s_max", c.tokens_s.max},
          {"bytes_per_token", c.bytes_per_token},
          {"flops_per_token", c.operations_per_token},
          {"share", c.share.median},
          {"share_min", c.share.min},
          {"share_max", c.share.max},
          {"parts", parts}};
}

}  // namespace

std::string bench_text(const BenchReport& r) {
  const Rates rates = rates_of(r.machine);
  std::string text = fmt::format("{}\n  {}\n  {} threads, {} kernels, chunks of {} tokens\n", r.model,
                                 r.geometry, r.threads, r.isa, r.chunk);
  text += fmt::format("machine, beside the model: read {} GB/s, bf16 {} GFLOP/s, int8 {} GOP/s\n",
                      spread_text(rates.read, 1), spread_text(rates.bf16, 0), spread_text(rates.int8, 0));
  text +=
      "share: the time that the machine's limits demand (bytes / read, operations / dots) of the time "
      "taken\n";
  for (const CaseResult& c : r.decode) text += case_text(c);
  for (const CaseResult& c : r.prefill) text += case_text(c);
  text += fmt::format(
      "\nmemory: weights {} in files, cache {}, scratch of steps {}, private memory beyond cache {}\n",
      human_bytes(static_cast<double>(r.weight_bytes)), human_bytes(static_cast<double>(r.cache_bytes)),
      human_bytes(static_cast<double>(r.scratch_bytes)), human_bytes(static_cast<double>(r.resident_bytes)));
  return text;
}

nlohmann::json bench_json(const BenchReport& r) {
  const Rates rates = rates_of(r.machine);
  nlohmann::json decode = nlohmann::json::array(), prefill = nlohmann::json::array();
  for (const CaseResult& c : r.decode) {
    nlohmann::json one = case_json(c);
    one["context"] = c.context;
    one["batch"] = c.batch;
    decode.push_back(std::move(one));
  }
  for (const CaseResult& c : r.prefill) {
    nlohmann::json one = case_json(c);
    one["tokens"] = c.tokens;
    prefill.push_back(std::move(one));
  }
  return {{"model", r.model},
          {"geometry", r.geometry},
          {"machine",
           {{"threads", r.threads},
            {"isa", r.isa},
            {"read_gb_s", rates.read.median},
            {"read_gb_s_min", rates.read.min},
            {"read_gb_s_max", rates.read.max},
            {"bf16_gflops", rates.bf16.median},
            {"int8_gops", rates.int8.median}}},
          {"memory",
           {{"weights", r.weight_bytes},
            {"cache", r.cache_bytes},
            {"scratch", r.scratch_bytes},
            {"private_beyond_cache", r.resident_bytes}}},
          {"decode", decode},
          {"prefill", prefill}};
}

}  // namespace seekline
