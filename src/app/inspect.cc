// seekline inspect: what a checkpoint holds and how it would run.
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "app/commands.h"
#include "app/plan_text.h"
#include "checkpoint/checkpoint.h"
#include "model/network.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

struct InspectOptions {
  std::string folder;
  std::int64_t context = 131072;
  std::string attention, attention_file;
  std::int64_t attention_tokens = 16;
  NumericSettings settings;
};

void print_dtypes(const Checkpoint& checkpoint) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> by_type;
  for (const Tensor& t : checkpoint.tensors()) {
    auto& [count, bytes] = by_type[std::string(dtype_name(t.dtype))];
    ++count;
    bytes += t.bytes;
  }
  fmt::print("\n  {:<22} {:>10} {:>20}\n", "stored as", "tensors", "bytes");
  for (const auto& [name, sum] : by_type)
    fmt::print("  {:<22} {:>10} {:>20}\n", name, with_commas(sum.first), with_commas(sum.second));
}

void print_parts(const Network& network) {
  fmt::print("\n  {:<22} {:>10} {:>20} {:>20}\n", "part", "tensors", "bytes", "bytes per token");
  std::int64_t per_token = 0;
  for (const WeightPart& part : network.parts()) {
    fmt::print("  {:<22} {:>10} {:>20} {:>20}\n", part.name, with_commas(part.tensors),
               with_commas(part.bytes), with_commas(part.bytes_per_token));
    per_token += part.bytes_per_token;
  }
  fmt::print("  {:<22} {:>10} {:>20} {:>20}\n", "a decode step reads", "", "", with_commas(per_token));
  for (const WeightSet::Unused& u : network.unused())
    fmt::print("  {:<22} {:>10} {:>20}   unused: {}\n", u.prefix + "*", with_commas(u.tensors),
               with_commas(u.bytes), u.reason);
}

std::string attention_text(const InspectOptions& o) {
  if (o.attention_file.empty()) return o.attention;
  std::ifstream in(o.attention_file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void inspect(const InspectOptions& o) {
  const auto start = std::chrono::steady_clock::now();
  const std::string folder = o.folder.empty() ? default_model_folder() : o.folder;
  const Checkpoint checkpoint = Checkpoint::open(folder);
  std::unique_ptr<Tokenizer> tokenizer;
  const std::filesystem::path tokenizer_path = std::filesystem::path(folder) / "tokenizer.json";
  if (std::filesystem::exists(tokenizer_path))
    tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(tokenizer_path));
  const std::unique_ptr<Network> network = load_network(checkpoint, tokenizer.get(), o.settings);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}\n  family    {}\n  geometry  {}\n  context   {} tokens\n", folder, network->family(),
             network->geometry(), with_commas(network->max_context()));
  fmt::print("  files     {} with {} tensors, {} tensor bytes ({}); opened in {:.2f} s\n",
             checkpoint.files().size(), with_commas(static_cast<std::int64_t>(checkpoint.tensors().size())),
             with_commas(checkpoint.tensor_bytes()),
             human_bytes(static_cast<double>(checkpoint.tensor_bytes())), seconds);
  if (tokenizer) fmt::print("  tokenizer {} tokens\n", with_commas(tokenizer->size()));
  for (const std::string& note : network->notes()) fmt::print("  {}\n", note);
  print_dtypes(checkpoint);
  print_parts(*network);
  fmt::print("\n{}", plan_text(network->plan(), std::min(o.context, network->max_context()), true));
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  const auto o = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "family, geometry, tensors by kind, what is unused, and the cache plan");
  command->add_option("--model", o->folder, "checkpoint folder; default: the default model");
  command->add_option("--context", o->context, "tokens of context for the reads")->capture_default_str();
  CLI::Option* text =
      command->add_option("--attention", o->attention,
                          "a text: what do selecting layers leave out on it (softmax mass, bound, change)?");
  command->add_option("--attention-file", o->attention_file, "the same for a file")
      ->excludes(text)
      ->check(CLI::ExistingFile);
  command
      ->add_option("--attention-tokens", o->attention_tokens,
                   "tokens at the end of the text that are measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([o] {
    if (o->attention.empty() && o->attention_file.empty()) return inspect(*o);
    inspect_attention(o->folder.empty() ? default_model_folder() : o->folder, attention_text(*o),
                      o->attention_tokens, o->settings);
  });
}

}  // namespace seekline
