#include "app/reuse_options.h"

#include <fmt/format.h>

#include "app/choice.h"
#include "app/commands.h"
#include "engine/prefix_cache.h"
#include "persist/stored_rows.h"

namespace seekline {

void add_reuse_options(CLI::App& command, ReuseOptions& o, ModelOptions& model) {
  add_choice<DecoderMode>(
      command, "--decoder", model.decoder, {{"ced", DecoderMode::kCed}, {"exact", DecoderMode::kExact}},
      "tokens of a prompt that decoder layers run on (V4.1, YOCO): ced (the last window, as deployed), "
      "exact (all)");
  add_choice<ReplayWay>(
      command, "--replay", o.way,
      {{"auto", ReplayWay::kAuto}, {"exact", ReplayWay::kExact}, {"bounded", ReplayWay::kBounded}},
      "how windows come back behind a reused prefix: auto (kept ones, else exact replay), exact, bounded "
      "(cheap and approximate)");
  command.add_flag(
      "--verify-reuse", o.verify,
      "compute every prompt that reused something once more from nothing; stop at the first other bit");
  command.add_option("--store", o.store, "folder where computed prefixes are kept for later runs");
  command.add_option("--store-limit", o.store_limit, "bytes of that folder at most (such as 10GiB)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->default_str("32GiB");
}

Session open_session(const std::shared_ptr<Model>& model, const ReuseOptions& o) {
  SessionOptions options;
  options.way = o.way;
  options.verify_reuse = o.verify;
  if (!o.store.empty()) {
    PrefixStoreOptions store_options;
    store_options.folder = o.store;
    store_options.limit_bytes = o.store_limit;
    std::shared_ptr<PrefixStore> store = PrefixStore::open(*model, store_options);
    if (!store->why_read_only().empty())
      fmt::print(stderr, "seekline: {} is only read: {}\n", o.store, store->why_read_only());
    const DecoderMode mode = model->options().decoder;
    options.prefixes = std::make_shared<PrefixCache>(
        model->pages(), mode, std::make_unique<StoredRows>(std::move(store), mode, model->plan()));
  }
  return Session(model, options);
}

std::string reuse_text(const ReuseReport& r) {
  if (r.reused_tokens == 0 && r.why_not_more.empty()) return {};
  if (r.reused_tokens == 0) return fmt::format("reused nothing: {}", r.why_not_more);
  std::string text = fmt::format("reused {} of {} prompt tokens ({}", with_commas(r.reused_tokens),
                                 with_commas(r.prompt_tokens), r.from);
  if (!r.windows.empty()) text += fmt::format("; windows: {}", r.windows);
  if (r.replayed_tokens > 0) text += fmt::format("; {} replayed", with_commas(r.replayed_tokens));
  if (!r.why_not_more.empty()) text += fmt::format("; not more: {}", r.why_not_more);
  return text + ")";
}

std::string work_text(const ReuseReport& r) {
  std::string text = fmt::format("{} tokens computed", with_commas(r.computed_tokens));
  if (r.decoder_evaluations > 0)
    text += fmt::format(", {} token-layers in the encoder and {} in the decoder",
                        with_commas(r.encoder_evaluations), with_commas(r.decoder_evaluations));
  return text;
}

}  // namespace seekline
