#include "persist/maintenance.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include <fmt/format.h>

#include "persist/catalog.h"
#include "persist/environment.h"
#include "persist/evict.h"
#include "persist/lmdb_pages.h"

namespace seekline {
namespace {

std::shared_ptr<Environment> open_to_read(const std::filesystem::path& folder) {
  return Environment::open(folder, {.read_only = true});
}

std::shared_ptr<Environment> open_to_write(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "data.mdb"))
    throw Error(ErrorCode::kNotFound, fmt::format("prefix store {}: there is no store", folder.string()));
  std::shared_ptr<Environment> env = Environment::open(folder, {});
  if (env->read_only()) throw Error(ErrorCode::kIo, env->why_read_only());
  return env;
}

// Runs `work` in a write transaction, in a map that has room for it.
template <typename Work>
void write(Environment& env, const Work& work) {
  for (;;) {
    try {
      WriteTxn txn(env);
      work(txn);
      txn.commit();
      return;
    } catch (const MapFull&) {
      env.grow_map(env.map_bytes() + env.map_bytes() / 4 + (std::int64_t{16} << 20));
    }
  }
}

std::int64_t stored_bytes(const Txn& txn, RecordKind kind, const CatalogEntry& entry) {
  std::string problem;
  const auto record = StoredRecord::find(txn, kind, entry.place, problem);
  return record && problem.empty() ? record->stored_bytes() : entry.first_piece_bytes;
}

// Position behind a block: its first position and its tokens.
std::int64_t end_of(const Txn& txn, RecordKind kind, const CatalogEntry& entry) {
  std::string problem;
  const auto record = StoredRecord::find(txn, kind, entry.place, problem);
  return record && problem.empty() ? record->header().first() + record->header().token_count() : 0;
}

std::int64_t token_count(const Txn& txn, const CatalogEntry& entry) {
  if (entry.children > 0) return kBlockTokens;
  std::string problem;
  const auto record = StoredRecord::find(txn, RecordKind::kBlock, entry.place, problem);
  return record && problem.empty() ? record->header().token_count() : 0;
}

template <typename T>
void latest_first(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const T& a, const T& b) { return a.last_used_ms > b.last_used_ms; });
}

}  // namespace

std::vector<StoreModel> list_models(const std::filesystem::path& folder) {
  const auto env = open_to_read(folder);
  const ReadTxn txn(*env);
  const Catalog catalog(txn);
  std::map<Key, StoreModel> models;
  for (const auto& [fingerprint, blocks] : catalog.models) {
    const auto text = txn.get(Table::kModels, bytes_of(fingerprint));
    models[fingerprint].description.assign(text->begin(), text->end());
  }
  for (const CatalogEntry& block : catalog.blocks) {
    StoreModel& model = models[block.root];
    ++model.blocks;
    model.tokens += token_count(txn, block);
    model.bytes += stored_bytes(txn, RecordKind::kBlock, block);
    model.last_used_ms = std::max(model.last_used_ms, block.used);
    if (block.children == 0) {
      ++model.chains;
      model.longest_tokens = std::max(model.longest_tokens, end_of(txn, RecordKind::kBlock, block));
    }
  }
  for (const CatalogEntry& snapshot : catalog.snapshots) {
    StoreModel& model = models[snapshot.root];
    ++model.snapshots;
    model.bytes += stored_bytes(txn, RecordKind::kSnapshot, snapshot);
  }
  std::vector<StoreModel> list;
  for (auto& [fingerprint, model] : models) {
    model.fingerprint = fingerprint;
    list.push_back(std::move(model));
  }
  latest_first(list);
  return list;
}

std::vector<StoreChain> list_chains(const std::filesystem::path& folder, const std::string& fingerprint) {
  const auto env = open_to_read(folder);
  const ReadTxn txn(*env);
  const Catalog catalog(txn);
  std::multimap<Key, std::int64_t> snapshots;
  for (const CatalogEntry& snapshot : catalog.snapshots)
    snapshots.emplace(snapshot.parent, end_of(txn, RecordKind::kSnapshot, snapshot));
  std::vector<StoreChain> list;
  for (const CatalogEntry& block : catalog.blocks) {
    if (block.children > 0) continue;
    const Key root = block.root;
    if (!root.hex().starts_with(fingerprint)) continue;
    StoreChain& chain = list.emplace_back();
    chain.key = block.key;
    chain.fingerprint = root;
    chain.tokens = end_of(txn, RecordKind::kBlock, block);
    chain.last_used_ms = block.used;
    const auto [begin, end] = snapshots.equal_range(block.parent);
    for (auto it = begin; it != end; ++it)
      if (it->second <= chain.tokens) chain.snapshots.push_back(it->second);
    std::sort(chain.snapshots.begin(), chain.snapshots.end());
  }
  latest_first(list);
  return list;
}

StoreFigures store_figures(const std::filesystem::path& folder) {
  const auto env = open_to_read(folder);
  const ReadTxn txn(*env);
  StoreFigures figures;
  figures.file_bytes = env->file_bytes();
  figures.live_bytes = txn.live_bytes();
  figures.blocks = static_cast<std::int64_t>(txn.stat(Table::kBlocks).ms_entries);
  figures.snapshots = static_cast<std::int64_t>(txn.stat(Table::kSnapshots).ms_entries);
  figures.models = static_cast<std::int64_t>(txn.stat(Table::kModels).ms_entries);
  for (const Table table : {Table::kBlocks, Table::kSnapshots, Table::kPieces})
    figures.record_bytes += static_cast<std::int64_t>(txn.stat(table).ms_overflow_pages) * store_page_bytes();
  figures.index_bytes = figures.live_bytes - figures.record_bytes;
  mdb_reader_list(
      env->handle(),
      [](const char* line, void* count) {
        if (std::string_view(line).find("txnid") == std::string_view::npos) ++*static_cast<int*>(count);
        return 0;
      },
      &figures.readers);
  return figures;
}

StoreTidied tidy_store(const std::filesystem::path& folder, std::optional<std::int64_t> limit_bytes) {
  const auto env = open_to_write(folder);
  env->clear_dead_readers();
  StoreTidied tidied;
  write(*env, [&](WriteTxn& txn) {
    tidied = {};
    const Catalog catalog(txn);
    const auto reachable = [&](const CatalogEntry& entry) { return catalog.models.contains(entry.root); };
    for (const CatalogEntry& block : catalog.blocks)
      if (!reachable(block)) tidied.unreachable_blocks += erase_record(txn, RecordKind::kBlock, block.place);
    for (const CatalogEntry& snapshot : catalog.snapshots)
      if (!reachable(snapshot))
        tidied.unreachable_snapshots += erase_record(txn, RecordKind::kSnapshot, snapshot.place);
    for (const Key& key : catalog.dangling_used) tidied.dangling += txn.erase(Table::kUsed, bytes_of(key));
    for (const Key& key : catalog.dangling_pieces) {
      erase_pieces(txn, key);
      ++tidied.dangling;
    }
    if (limit_bytes) {
      const Evicted evicted = evict(txn, *limit_bytes);
      tidied.evicted_blocks = evicted.blocks;
      tidied.evicted_snapshots = evicted.snapshots;
    }
    for (const auto& [fingerprint, blocks] : catalog.models)
      if (blocks == 0) tidied.dangling += txn.erase(Table::kModels, bytes_of(fingerprint));
    tidied.live_bytes = txn.live_bytes();
  });
  return tidied;
}

bool remove_store(const std::filesystem::path& folder) {
  bool removed = false;
  for (const char* name : {"data.mdb", "lock.mdb"}) {
    std::error_code failed;
    removed |= std::filesystem::remove(folder / name, failed);
    if (failed)
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: cannot be removed: {}", (folder / name).string(), failed.message()));
  }
  return removed;
}

std::int64_t remove_from_store(const std::filesystem::path& folder, const std::string& hex) {
  const auto env = open_to_write(folder);
  std::int64_t removed = 0;
  write(*env, [&](WriteTxn& txn) {
    removed = 0;
    const Catalog catalog(txn);
    std::vector<Key> roots;
    for (const auto& [fingerprint, blocks] : catalog.models)
      if (fingerprint.hex().starts_with(hex)) roots.push_back(fingerprint);
    for (const CatalogEntry& block : catalog.blocks)
      if (block.key.hex().starts_with(hex)) roots.push_back(block.key);
    if (hex.empty() || roots.size() != 1)
      throw Error(ErrorCode::kUsage,
                  fmt::format("{} models and blocks of the store begin with \"{}\"; give the first "
                              "digits of one (see seekline cache ls)",
                              roots.size(), hex));
    std::multimap<Key, std::size_t> children;
    for (std::size_t i = 0; i < catalog.blocks.size(); ++i) children.emplace(catalog.blocks[i].parent, i);
    std::unordered_set<Key, KeyHash> gone{roots[0]};
    for (std::vector<Key> open{roots[0]}; !open.empty();) {
      const auto [begin, end] = children.equal_range(open.back());
      open.pop_back();
      for (auto it = begin; it != end; ++it)
        if (gone.insert(catalog.blocks[it->second].key).second)
          open.push_back(catalog.blocks[it->second].key);
    }
    // Snapshots within the block itself lie under its parent, where others may need them; tidying finds the
    // rest.
    for (const CatalogEntry& snapshot : catalog.snapshots)
      if (gone.contains(snapshot.parent)) removed += erase_record(txn, RecordKind::kSnapshot, snapshot.place);
    for (const CatalogEntry& block : catalog.blocks)
      if (gone.contains(block.key)) removed += erase_record(txn, RecordKind::kBlock, block.place);
    txn.erase(Table::kModels, bytes_of(roots[0]));
  });
  return removed;
}

}  // namespace seekline
