// seekline inspect --attention: what the selections of a model leave out on a given text.
#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "app/commands.h"
#include "app/plan_text.h"
#include "cache/sequence_cache.h"
#include "engine/executor.h"
#include "engine/truncation.h"

namespace seekline {
namespace {

constexpr int kHeadGroups = 8;

// Heads of one group over all measured tokens of a layer.
struct GroupSums {
  int count = 0, first_head = 0, last_head = 0;
  std::int64_t eligible = 0, selected = 0;  // of the last token
  double mean_omitted = 0, omitted = 0, change = 0, bound = 0;

  void add(const Truncation& t) {
    if (count++ == 0) first_head = t.head;
    last_head = std::max(last_head, t.head);
    eligible = t.eligible;
    selected = t.selected;
    mean_omitted += t.omitted;
    omitted = std::max(omitted, t.omitted);
    change = std::max(change, t.change);
    bound = std::max(bound, t.bound);
  }
};

// The prompt through the model, the last `tokens` of it measured.
std::vector<Truncation> measure(Model& model, const std::vector<std::int32_t>& prompt, std::int64_t tokens) {
  const auto length = static_cast<std::int64_t>(prompt.size());
  TruncationProbe probe(length - tokens);
  SequenceCache cache(model.pages());
  std::vector<float> logits(static_cast<std::size_t>(model.vocab_size()));
  for (std::int64_t done = 0; done < length;) {
    const std::int64_t n = std::min(model.options().batch_tokens, length - done);
    const std::int32_t last = static_cast<std::int32_t>(n - 1);
    const bool ends = done + n == length;
    Run run;
    run.cache = &cache;
    run.first_position = done;
    run.tokens = std::span(prompt).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(n));
    if (ends) run.wanted_logits = {&last, 1};
    model.executor().forward({&run, 1}, {logits.data(), ends ? 1 : 0, model.vocab_size()}, &probe);
    done += n;
  }
  return probe.found();
}

void print_layers(const CachePlan& plan, const std::vector<Truncation>& found) {
  int heads = 0;
  for (const Truncation& t : found) heads = std::max(heads, t.head + 1);
  const int group_heads = (heads + kHeadGroups - 1) / kHeadGroups;
  std::map<std::pair<int, int>, GroupSums> groups;
  for (const Truncation& t : found) groups[{t.layer, t.head / group_heads}].add(t);
  fmt::print("{:<6} {:<32} {:>9} {:>9} {:>9} {:>11} {:>11} {:>12} {:>12}\n", "layer", "selects", "eligible",
             "selected", "heads", "mean delta", "max delta", "max |o-o_S|", "max 2dV");
  int before = -1;
  for (const auto& [key, g] : groups) {
    const bool first = key.first != before;
    before = key.first;
    fmt::print("{:<6} {:<32} {:>9} {:>9} {:>9} {:>11.2e} {:>11.2e} {:>12.3e} {:>12.3e}\n",
               first ? std::to_string(key.first) : "", first ? select_text(plan, key.first) : "",
               first ? with_commas(g.eligible) : "", first ? with_commas(g.selected) : "",
               g.first_head == g.last_head ? std::to_string(g.first_head)
                                           : fmt::format("{}-{}", g.first_head, g.last_head),
               g.mean_omitted / g.count, g.omitted, g.change, g.bound);
  }
}

}  // namespace

void inspect_attention(const std::string& folder, const std::string& text, std::int64_t tokens,
                       NumericSettings settings) {
  ModelOptions options;
  options.settings = settings;
  options.settings.latent_order =
      LatentOrder::kAbsorb;  // the order whose keys and values are the rows themselves
  const std::shared_ptr<Model> model = Model::open(folder, options);
  const CachePlan& plan = model->plan();
  const bool selects = std::any_of(plan.layers.begin(), plan.layers.end(), [](const LayerPlan& layer) {
    return layer.select.how != Select::How::kNone && layer.select.how != Select::How::kAll;
  });
  if (!selects)
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: every layer of a {} reads all rows it may see; nothing is left out", folder,
                            model->network().family()));
  const std::vector<std::int32_t> prompt = model->encode(text, false);
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length == 0) throw Error(ErrorCode::kUsage, "--attention: the text is empty");
  if (length > model->context())
    throw Error(ErrorCode::kLimit,
                fmt::format("--attention: the text has {} tokens, but the context holds {}", length,
                            model->context()));
  tokens = std::clamp<std::int64_t>(tokens, 1, length);
  fmt::print(
      "{}: {} tokens, the last {} measured. delta: softmax mass of eligible rows that were not selected;\n"
      "|o - o_S|: change of a head's output by leaving them out, at most 2 delta V (V: largest value "
      "norm).\n\n",
      folder, with_commas(length), tokens);
  print_layers(plan, measure(*model, prompt, tokens));
}

}  // namespace seekline
