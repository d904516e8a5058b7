// seekline cache: looks at a prefix store, checks it, tidies it, removes from it.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "persist/maintenance.h"
#include "persist/write_behind.h"

namespace seekline {
namespace {

struct CacheOptions {
  std::string folder, model, key;
  std::int64_t limit = 0;
  bool chains = false, json = false, erase = false, all = false;
};

std::string age(std::uint64_t then_ms) {
  const std::uint64_t now = now_ms(), seconds = now > then_ms ? (now - then_ms) / 1000 : 0;
  if (then_ms == 0) return "never";
  if (seconds < 120) return fmt::format("{} s ago", seconds);
  if (seconds < 7200) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 172800) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} days ago", seconds / 86400);
}

std::string settings_of(const std::string& description) {
  const auto about = nlohmann::json::parse(description, nullptr, false);
  if (!about.is_object()) return "unknown model";
  const auto text = [&](const char* name) { return about.value(name, std::string("?")); };
  return fmt::format("{}, {}, activations {}, rows {}, arithmetic {}, {}", text("model_type"),
                     human_bytes(static_cast<double>(about.value("weight_bytes", std::int64_t{0}))),
                     text("activations"), text("rows"), text("arithmetic"), text("kernels"));
}

std::string counted(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", with_commas(count), what, count == 1 ? "" : "s");
}

void ls_json(const CacheOptions& o, const std::vector<StoreModel>& models,
             const std::vector<StoreChain>& chains) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const StoreModel& m : models) {
    if (!m.fingerprint.hex().starts_with(o.model)) continue;
    out.push_back({{"fingerprint", m.fingerprint.hex()},
                   {"model", nlohmann::ordered_json::parse(m.description, nullptr, false)},
                   {"chains", m.chains},
                   {"blocks", m.blocks},
                   {"tokens", m.tokens},
                   {"longest_tokens", m.longest_tokens},
                   {"snapshots", m.snapshots},
                   {"bytes", m.bytes},
                   {"last_used_ms", m.last_used_ms}});
  }
  for (const StoreChain& c : chains)
    out.push_back({{"chain", c.key.hex()},
                   {"fingerprint", c.fingerprint.hex()},
                   {"tokens", c.tokens},
                   {"snapshots", c.snapshots},
                   {"last_used_ms", c.last_used_ms}});
  fmt::print("{}\n", out.dump(1));
}

void ls(const CacheOptions& o) {
  const std::vector<StoreModel> models = list_models(o.folder);
  std::vector<StoreChain> chains;
  if (o.chains) chains = list_chains(o.folder, o.model);
  if (o.json) return ls_json(o, models, chains);
  if (models.empty()) fmt::print("the store is empty\n");
  for (const StoreModel& m : models) {
    if (!m.fingerprint.hex().starts_with(o.model)) continue;
    fmt::print("{}  {}\n  {}, {} in {}, the longest {}; {}; {}; used {}\n", m.fingerprint.hex(),
               settings_of(m.description), m.chains == 1 ? "1 prefix" : with_commas(m.chains) + " prefixes",
               counted(m.tokens, "token"), counted(m.blocks, "block"), with_commas(m.longest_tokens),
               counted(m.snapshots, "snapshot"), human_bytes(static_cast<double>(m.bytes)),
               age(m.last_used_ms));
    for (const StoreChain& c : chains)
      if (c.fingerprint == m.fingerprint)
        fmt::print("    {}  {:>12} tokens  used {}{}\n", c.key.hex(), with_commas(c.tokens),
                   age(c.last_used_ms),
                   c.snapshots.empty() ? "" : fmt::format("  snapshots at {}", fmt::join(c.snapshots, ", ")));
  }
}

void stat(const CacheOptions& o) {
  const StoreFigures f = store_figures(o.folder);
  if (o.json) {
    const nlohmann::ordered_json out{
        {"file_bytes", f.file_bytes},   {"live_bytes", f.live_bytes}, {"record_bytes", f.record_bytes},
        {"index_bytes", f.index_bytes}, {"blocks", f.blocks},         {"snapshots", f.snapshots},
        {"models", f.models},           {"readers", f.readers}};
    fmt::print("{}\n", out.dump(1));
    return;
  }
  fmt::print(
      "{}\n  file       {:>18} bytes\n  in use     {:>18} bytes\n  records    {:>18} bytes\n  index      "
      "{:>18} bytes\n"
      "  blocks     {:>18}\n  snapshots  {:>18}\n  models     {:>18}\n  readers    {:>18}\n",
      o.folder, with_commas(f.file_bytes), with_commas(f.live_bytes), with_commas(f.record_bytes),
      with_commas(f.index_bytes), with_commas(f.blocks), with_commas(f.snapshots), f.models, f.readers);
}

void verify(const CacheOptions& o) {
  const StoreCheck check = verify_store(o.folder, o.erase);
  for (const std::string& problem : check.problems) fmt::print("{}\n", problem);
  fmt::print("{} blocks and {} snapshots are sound\n", with_commas(check.blocks),
             with_commas(check.snapshots));
  if (o.erase) fmt::print("{} records erased\n", check.erased);
  if (!check.problems.empty() && !o.erase)
    throw Error(ErrorCode::kBadFile,
                fmt::format("prefix store {}: {} problems; --erase takes unsound records out", o.folder,
                            check.problems.size()));
}

void gc(const CacheOptions& o, bool limited) {
  const StoreTidied t = tidy_store(o.folder, limited ? std::optional(o.limit) : std::nullopt);
  fmt::print(
      "erased: {} blocks and {} snapshots that nothing leads to, {} entries without a record; evicted: {} "
      "blocks, "
      "{} snapshots; in use: {} bytes\n",
      t.unreachable_blocks, t.unreachable_snapshots, t.dangling, t.evicted_blocks, t.evicted_snapshots,
      with_commas(t.live_bytes));
}

void rm(const CacheOptions& o) {
  if (o.all == !o.key.empty()) throw Error(ErrorCode::kUsage, "cache rm needs either a key or --all");
  if (o.all) {
    fmt::print("{}\n", remove_store(o.folder) ? "the store is removed" : "there was no store");
    return;
  }
  fmt::print("{} records removed\n", with_commas(remove_from_store(o.folder, o.key)));
}

}  // namespace

void add_cache_command(CLI::App& app) {
  const auto o = std::make_shared<CacheOptions>();
  CLI::App* command = app.add_subcommand("cache", "computed prefixes on disk: ls, stat, verify, gc, rm");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("--store", o->folder, "folder of the store")->required();
    return sub;
  };
  CLI::App* list = add("ls", "models, and with --prefixes every prefix, the latest used first");
  list->add_option("--model", o->model, "only the model whose fingerprint begins so");
  list->add_flag("--prefixes", o->chains, "every stored prefix");
  list->add_flag("--json", o->json, "as JSON");
  list->callback([o] { ls(*o); });
  CLI::App* figures = add("stat", "sizes and counts");
  figures->add_flag("--json", o->json, "as JSON");
  figures->callback([o] { stat(*o); });
  CLI::App* check = add("verify", "read every byte of the store against its checksums");
  check->add_flag("--erase", o->erase,
                  "take unsound records out; they are stored anew when they are computed next");
  check->callback([o] { verify(*o); });
  CLI::App* tidy = add("gc", "erase what nothing leads to; with --limit also the least recently used");
  CLI::Option* limit = tidy->add_option("--limit", o->limit, "bytes that may stay in use (such as 10GiB)")
                           ->transform(CLI::AsSizeValue(false));
  tidy->callback([o, limit] { gc(*o, limit->count() > 0); });
  CLI::App* remove = add("rm", "remove a model's prefixes, or one prefix from a block on");
  remove->add_option("key", o->key, "first digits of a fingerprint or of a block's key");
  remove->add_flag("--all", o->all, "the whole store, also when it is damaged");
  remove->callback([o] { rm(*o); });
}

}  // namespace seekline
