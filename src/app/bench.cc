// seekline bench: speed of a model against what the machine can do, part by part.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/bench_report.h"
#include "app/bench_reuse.h"
#include "app/bench_synth.h"
#include "app/commands.h"
#include "checkpoint/checkpoint.h"
#include "engine/executor.h"
#include "kernels/table.h"
#include "model/network.h"

namespace seekline {
namespace {

struct BenchCommand {
  std::string folder, isa;
  BenchSynth synth;
  ModelOptions model;
  std::vector<std::int64_t> contexts{4096};
  std::vector<int> batches{1};
  std::vector<std::int64_t> prompts{128, 512};
  BenchBudget budget;
  std::vector<std::int64_t> reuse;
  ReuseBudget reuse_budget;
  std::int64_t read_mib = MachineProbe::kReadMib;
  bool json = false, no_decode = false, no_prefill = false;
};

// Memory of this process that no file backs.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t kib = 0;
  for (std::string word; status >> word;)
    if (word == "RssAnon:") status >> kib;
  return kib * 1024;
}

void progress_line(const std::string& what) {
  static const bool show = isatty(STDERR_FILENO) != 0;
  if (show) fmt::print(stderr, "\r\033[K{}", what);
}

void bench_reuse(const BenchCommand& c, const std::string& folder, Model& model) {
  ReuseBench bench(model, c.reuse_budget, progress_line);
  nlohmann::json all = nlohmann::json::array();
  std::string text = fmt::format("{}\n  {}\n  {} threads, {} kernels\n", folder, model.network().geometry(),
                                 model.executor().threads(), isa_name(kernels().isa));
  for (const std::int64_t tokens : c.reuse) {
    const ReuseResult result = bench.run(tokens);
    progress_line("");
    text += reuse_bench_text(result);
    all.push_back(reuse_bench_json(result));
  }
  fmt::print("{}", c.json ? nlohmann::json{{"model", folder}, {"reuse", all}}.dump(2) + "\n" : text);
}

void bench(BenchCommand& c) {
  if (!c.isa.empty()) setenv("SEEKLINE_ISA", c.isa.c_str(), 1);
  const Kernels& level = kernels();
  std::string folder = c.folder;
  if (!c.synth.preset.empty()) {
    if (!folder.empty()) throw Error(ErrorCode::kUsage, "bench takes either --model or --preset");
    folder = bench_model_folder(c.synth);
  } else if (folder.empty()) {
    folder = default_model_folder();
  }
  const std::shared_ptr<Model> model = Model::open(folder, c.model);
  if (!c.reuse.empty()) return bench_reuse(c, folder, *model);
  MachineProbe probe(model->executor().threads(), c.read_mib);
  const std::int64_t before = anonymous_bytes();
  if (model->checkpoint().fits_memory()) {
    progress_line("reading the weights");
    model->checkpoint().read_once(model->network().tables());
  }
  ModelBench bench(*model, probe, c.budget, progress_line);
  BenchReport report;
  if (!c.no_decode)
    for (const std::int64_t context : c.contexts)
      for (const int batch : c.batches) report.decode.push_back(bench.decode(context, batch));
  if (!c.no_prefill)
    for (const std::int64_t tokens : c.prompts) report.prefill.push_back(bench.prefill(tokens));
  progress_line("");
  report.model = folder;
  report.geometry = model->network().geometry();
  report.isa = isa_name(level.isa);
  report.threads = model->executor().threads();
  report.chunk = model->options().batch_tokens;
  report.machine = bench.machine();
  report.weight_bytes = model->checkpoint().tensor_bytes();
  report.cache_bytes = bench.cache_bytes();
  report.scratch_bytes = model->executor().scratch_bytes();
  report.resident_bytes = anonymous_bytes() - before + (before - probe.bytes()) - report.cache_bytes;
  if (c.json) {
    fmt::print("{}\n", bench_json(report).dump(2));
  } else {
    fmt::print("{}", bench_text(report));
  }
}

}  // namespace

void add_bench_command(CLI::App& app) {
  const auto c = std::make_shared<BenchCommand>();
  CLI::App* command =
      app.add_subcommand("bench", "speed of a model beside what the machine can do, part by part");
  command->add_option("--model", c->folder, "checkpoint folder; default: the default model");
  command->add_option("--preset", c->synth.preset,
                      "a released geometry, written by formula once and kept (see synth)");
  command->add_option("--layers", c->synth.layers, "with --preset: keep the first layers only");
  command->add_option("--experts", c->synth.experts, "with --preset: routed experts a layer");
  command->add_option("--tokenizer", c->synth.tokenizer,
                      "with --preset: tokenizer.json of that model; without it Engram layers are left out");
  command->add_option("--context", c->contexts, "contexts to decode at, filled by formula")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--batch", c->batches, "sequences that decode together")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--prefill", c->prompts, "prompt lengths")->delimiter(',')->capture_default_str();
  command->add_flag("--no-decode", c->no_decode, "prefill alone");
  command->add_flag("--no-prefill", c->no_prefill, "decode alone");
  command
      ->add_option("--reuse", c->reuse,
                   "instead: what a prefix of so many tokens saves, in memory and in a store on disk (in "
                   "TMPDIR), and what storing it costs")
      ->delimiter(',');
  command
      ->add_option("--parts", c->reuse_budget.parts,
                   "with --reuse: prompt (both decoder modes), snapshot and replay (back to the first "
                   "token), decode (while rows "
                   "are written)")
      ->delimiter(',')
      ->check(CLI::IsMember({"prompt", "snapshot", "replay", "decode"}).description(""));
  command
      ->add_option("--sampled", c->reuse_budget.sampled_chunks,
                   "with --reuse: chunks of the prompt that are computed, the rest reckoned; 0: all")
      ->capture_default_str();
  command->add_option("--threads", c->model.threads, "threads; 0: one a processor")->capture_default_str();
  command->add_option("--chunk", c->model.batch_tokens, "tokens of one forward at most")
      ->capture_default_str();
  command->add_option("--isa", c->isa, "portable, avx2, avx512 or avx512bf16; default: the best here");
  command->add_option("--rounds", c->budget.rounds, "readings of each case at most")->capture_default_str();
  command->add_option("--seconds", c->budget.case_seconds, "no new reading of a case after this")
      ->capture_default_str();
  command
      ->add_option("--read-mib", c->read_mib,
                   "memory that the machine's read bandwidth is measured over; less than its caches hold "
                   "measures these")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", c->json, "for programs");
  command->callback([c] {
    c->reuse_budget.rounds = c->budget.rounds;
    bench(*c);
  });
}

}  // namespace seekline
