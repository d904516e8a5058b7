// seekline logits: logits of every position of given token lists, for comparison with references.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/logits_prompts.h"
#include "app/reuse_options.h"
#include "cache/sequence_cache.h"
#include "checkpoint/cases.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/executor.h"
#include "seekline/session.h"

namespace seekline {
namespace {

struct LogitsOptions {
  ModelOptions model;
  ReuseOptions reuse;
  std::string folder, cases, out;
  bool batch = false, taps = false, prompts = false;
};

// A tensor that grows by rows while a case runs.
struct Growing {
  std::vector<float> floats;
  std::vector<std::vector<std::int32_t>> lists;  // integer tensors: ragged rows
  std::vector<std::int64_t> shape;               // of one row
  std::int64_t capacity = 0;                     // columns of a list, at least
};

struct RunningCase {
  const Case* source;
  std::unique_ptr<SequenceCache> cache;
  std::vector<float> logits;
  std::map<std::string, Growing> taps;
  std::int64_t done = 0;
};

// Sorts what a forward shows into its cases.
class CaseTaps final : public Taps {
 public:
  explicit CaseTaps(const std::vector<RunningCase*>& running) : running_(running) {}

  void floats(const char* what, int layer, const TokenBatch& batch, MatrixView<const float> values) override {
    for (std::int64_t r = 0; r < batch.count; ++r) {
      Growing& tap = at(what, layer, batch, r);
      tap.shape = {values.cols};
      tap.floats.insert(tap.floats.end(), values.row(r), values.row(r) + values.cols);
    }
  }
  void integers(const char* what, int layer, const TokenBatch& batch,
                MatrixView<const std::int64_t> values) override {
    for (std::int64_t r = 0; r < batch.count; ++r)
      at(what, layer, batch, r).lists.emplace_back(values.row(r), values.row(r) + values.cols);
  }
  void lists(const char* what, int layer, const TokenBatch& batch, const Selection& lists) override {
    for (std::int64_t r = 0; r < batch.count; ++r) {
      Growing& tap = at(what, layer, batch, r);
      tap.lists.emplace_back(lists.list(r), lists.list(r) + lists.counts[r]);
      if (std::string(what) == "pool") tap.capacity = lists.capacity;
    }
  }
  void experts(int layer, const TokenBatch& batch, const Routing& routing) override {
    for (std::int64_t r = 0; r < batch.count; ++r)
      at("experts", layer, batch, r)
          .lists.emplace_back(routing.experts + r * routing.top, routing.experts + (r + 1) * routing.top);
  }

 private:
  Growing& at(const char* what, int layer, const TokenBatch& batch, std::int64_t row) {
    RunningCase& running = *running_[static_cast<std::size_t>(batch.run_of[row])];
    return running.taps[fmt::format("{}.{}", what, layer)];
  }

  const std::vector<RunningCase*>& running_;
};

// One forward over the next chunk of every case in `running`, as many as fit.
void forward_chunk(Model& model, const std::vector<RunningCase*>& running, bool taps) {
  std::vector<Run> runs;
  std::vector<RunningCase*> now;
  std::vector<std::vector<std::int32_t>> wanted;
  std::int64_t room = model.options().batch_tokens;
  std::int64_t rows = 0;
  wanted.reserve(running.size());
  for (RunningCase* c : running) {
    const std::int64_t n = std::min(room, static_cast<std::int64_t>(c->source->tokens.size()) - c->done);
    if (n == 0) continue;
    wanted.emplace_back(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < wanted.back().size(); ++i) wanted.back()[i] = static_cast<std::int32_t>(i);
    Run run;
    run.cache = c->cache.get();
    run.first_position = c->done;
    run.tokens =
        std::span(c->source->tokens).subspan(static_cast<std::size_t>(c->done), static_cast<std::size_t>(n));
    run.wanted_logits = wanted.back();
    runs.push_back(run);
    now.push_back(c);
    room -= n;
    rows += n;
  }
  const std::int64_t vocab = model.vocab_size();
  std::vector<float> logits(static_cast<std::size_t>(rows * vocab));
  CaseTaps sink(now);
  model.executor().forward(runs, {logits.data(), rows, vocab}, taps ? &sink : nullptr);
  const float* from = logits.data();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::size_t n = runs[i].tokens.size();
    now[i]->logits.insert(now[i]->logits.end(), from, from + n * static_cast<std::size_t>(vocab));
    from += n * static_cast<std::size_t>(vocab);
    now[i]->done += static_cast<std::int64_t>(n);
  }
}

// Residual streams are rows of `streams` vectors: [tokens, streams, hidden], as the references store them.
std::vector<std::int64_t> tap_shape(const std::string& name, const Growing& tap, std::int64_t streams) {
  const std::int64_t width = tap.shape[0], rows = static_cast<std::int64_t>(tap.floats.size()) / width;
  if (streams > 1 && (name.starts_with("stream.") || name.starts_with("engram_out.")))
    return {rows, streams, width / streams};
  return {rows, width};
}

void write_case(SafetensorsWriter& writer, RunningCase& c, std::int64_t vocab, std::int64_t streams) {
  writer.add(c.source->id + "/logits", {c.done, vocab}, c.logits);
  for (auto& [name, tap] : c.taps) {
    const std::string full = c.source->id + "/" + name;
    if (tap.lists.empty()) {
      writer.add(full, tap_shape(name, tap, streams), tap.floats);
      continue;
    }
    std::size_t cols = static_cast<std::size_t>(tap.capacity);
    for (const auto& row : tap.lists) cols = std::max(cols, row.size());
    if (cols == 0) continue;
    std::vector<std::int32_t> values;
    for (auto& row : tap.lists) {
      row.resize(cols, -1);
      values.insert(values.end(), row.begin(), row.end());
    }
    writer.add(full, {static_cast<std::int64_t>(tap.lists.size()), static_cast<std::int64_t>(cols)}, values);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, path + " cannot be opened");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Residual streams of the model; 1 where it has none.
std::int64_t stream_count(const std::string& folder) {
  const nlohmann::json config = read_config_file(folder + "/config.json");
  const auto text = config.find("text_config");
  return (text == config.end() ? config : *text).value("hc_mult", std::int64_t{1});
}

void run_logits(const LogitsOptions& o) {
  SafetensorsWriter::check_place(o.out);
  const std::shared_ptr<Model> model = Model::open(o.folder, o.model);
  const std::vector<Case> cases = parse_cases(read_file(o.cases), o.cases, model->vocab_size());
  for (const Case& c : cases)
    if (static_cast<std::int64_t>(c.tokens.size()) > model->context())
      throw Error(ErrorCode::kLimit, fmt::format("case {} has {} tokens, but the context holds {}", c.id,
                                                 c.tokens.size(), model->context()));
  const std::int64_t streams = stream_count(o.folder);
  SafetensorsWriter writer;
  if (o.prompts) {
    for (const Case& c : cases) write_prompt_case(model, o.reuse, c, writer);
    return writer.write(o.out);
  }
  std::vector<RunningCase> all;
  for (const Case& c : cases) {
    all.emplace_back();
    all.back().source = &c;
  }
  const auto start = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  for (std::size_t first = 0; first < all.size();) {
    const std::size_t last = o.batch ? all.size() : first + 1;
    std::vector<RunningCase*> running;
    for (std::size_t i = first; i < last; ++i) {
      all[i].cache = std::make_unique<SequenceCache>(model->pages());
      running.push_back(&all[i]);
    }
    while (!running.empty()) {
      forward_chunk(*model, running, o.taps);
      std::erase_if(running, [](const RunningCase* c) {
        return c->done == static_cast<std::int64_t>(c->source->tokens.size());
      });
    }
    for (std::size_t i = first; i < last; ++i) {
      tokens += cases[i].tokens.size();
      write_case(writer, all[i], model->vocab_size(), streams);
      all[i].cache.reset();
    }
    first = last;
  }
  writer.write(o.out);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(stderr, "{} cases, {} tokens in {:.2f} s -> {}\n", cases.size(), tokens, seconds, o.out);
}

}  // namespace

void add_logits_command(CLI::App& app) {
  const auto o = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "write the logits of given token lists as safetensors");
  command->add_option("--model", o->folder, "checkpoint folder")->required();
  command->add_option("--cases", o->cases, "JSON: {\"cases\": [{\"id\": \"..\", \"tokens\": [..]}, ..]}")
      ->required();
  command
      ->add_option("--out", o->out, "file to write: \"<id>/logits\" f32 [tokens, vocabulary] for every case")
      ->required();
  command->add_flag("--batch", o->batch, "run all cases together, as sequences of common forwards");
  command->add_flag("--taps", o->taps, "write inner tensors as well: \"<id>/stream.3\", \"<id>/topk.2\", ..");
  CLI::Option* prompts = command->add_flag("--prompts", o->prompts,
                                           "take the first \"prompt\" tokens of a case as a prompt and the "
                                           "others as its answer: logits from the prompt's "
                                           "last token on; the lengths in its \"hits\" are computed and "
                                           "reused before. With --decoder and --replay");
  prompts->excludes("--batch")->excludes("--taps");
  add_reuse_options(*command, o->reuse, o->model);
  add_model_options(*command, o->model);
  command->callback([o] { run_logits(*o); });
}

}  // namespace seekline
