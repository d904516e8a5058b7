// The commands of the `seekline` program, one file each.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "seekline/model.h"

namespace seekline {

struct GenerateOptions;

void add_run_command(CLI::App& app);
void add_chat_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_synth_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_cache_command(CLI::App& app);

/// `inspect --attention`: what the selections of the model in `folder` leave out on `text`, by layer and head
/// group, for its last `tokens` tokens.
void inspect_attention(const std::string& folder, const std::string& text, std::int64_t tokens,
                       NumericSettings settings);

/// --activations, --rows, --arithmetic, --threads, --chunk, --context and --cache-limit of commands that run
/// a model.
void add_model_options(CLI::App& command, ModelOptions& options);

/// --max-tokens, --temperature, ... --seed and --stop; greedy without them.
void add_sampling_options(CLI::App& command, GenerateOptions& options);

using LineSink = std::function<void(const std::string& line)>;

/// Where the default model lies; fetched and converted at the first call. Lines about that go to `progress`,
/// or to stderr without it. Throws Error(kNotFound | kIo) where it fails.
std::string default_model_folder(const LineSink& progress = {});

/// "key=value" texts of --set as pairs. Throws Error(kUsage).
std::vector<std::pair<std::string, std::string>> key_values(const std::vector<std::string>& pairs);

/// 1234567 -> "1,234,567"
std::string with_commas(std::int64_t value);
/// 1234567 -> "1.18 MiB"
std::string human_bytes(double bytes);

}  // namespace seekline
