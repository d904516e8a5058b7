#include <fmt/format.h>

#include "app/choice.h"
#include "app/commands.h"
#include "engine/generate.h"
#include "seekline/error.h"

namespace seekline {

void add_model_options(CLI::App& command, ModelOptions& o) {
  add_choice<Activations>(command, "--activations", o.settings.activations,
                          {{"reference", Activations::kReference}, {"plain", Activations::kPlain}},
                          "inputs of quantized layers: reference (as trained), plain");
  add_choice<Rows>(
      command, "--rows", o.settings.rows,
      {{"deployed", Rows::kDeployed}, {"bf16", Rows::kBF16}, {"f32", Rows::kF32}, {"fp8", Rows::kFp8}},
      "cache rows: deployed (the family's formats), bf16, f32; fp8 (V2, V3: the rows of V3.2)");
  add_choice<Arithmetic>(command, "--arithmetic", o.settings.arithmetic,
                         {{"fast", Arithmetic::kFast}, {"f32", Arithmetic::kF32}},
                         "fast (bf16 products, f32 sums), f32 (no rounding)");
  add_choice<LatentOrder>(
      command, "--latent-order", o.settings.latent_order,
      {{"auto", LatentOrder::kAuto},
       {"absorb", LatentOrder::kAbsorb},
       {"expand", LatentOrder::kExpand},
       {"pre-merge", LatentOrder::kPreMerge},
       {"by-cost", LatentOrder::kByCost}},
      "products of latent attention (V2, V3, V3.2): auto (by geometry), absorb, expand, pre-merge "
      "(larger weights), by-cost (for each run; bits then depend on the cut into runs)");
  command.add_option("--threads", o.threads, "threads; 0: one a processor")
      ->check(CLI::Range(0, 1024).description(""))
      ->capture_default_str();
  command.add_option("--chunk", o.batch_tokens, "tokens of one forward at most")
      ->check(CLI::Range(1, 65536).description(""))
      ->capture_default_str();
  command.add_option("--context", o.context, "tokens of a sequence at most; 0: what the model was made for")
      ->capture_default_str();
  command.add_option("--cache-limit", o.cache_limit_bytes, "bytes of cache pages at most; 0: no limit")
      ->capture_default_str();
}

std::vector<std::pair<std::string, std::string>> key_values(const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorCode::kUsage, fmt::format("--set {}: expected key=value", pair));
    out.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return out;
}

void add_sampling_options(CLI::App& command, GenerateOptions& o) {
  SamplingOptions& s = o.sampling;
  s.temperature = 0;
  o.max_tokens = 256;
  command
      .add_option("--max-tokens", o.max_tokens, "tokens to generate at most; 0: until the context is full")
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
  command.add_option("--temperature", s.temperature, "0: greedy")->capture_default_str();
  command.add_option("--top-k", s.top_k, "keep the k best; 0: all")->capture_default_str();
  command.add_option("--top-p", s.top_p, "keep the best with this share of the probability")
      ->capture_default_str();
  command.add_option("--min-p", s.min_p, "keep tokens with this share of the best one's probability")
      ->capture_default_str();
  command.add_option("--repetition-penalty", s.repetition_penalty, "1: off")->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "0: off")->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "0: off")->capture_default_str();
  command.add_option("--seed", s.seed, "same seed, same text")->capture_default_str();
  command.add_option("--stop", o.stop, "end before this text (may be given several times)")
      ->allow_extra_args(false);
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}

}  // namespace seekline
