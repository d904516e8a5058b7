#include "persist/prefix_store.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/check.h"

namespace seekline {
namespace {

constexpr std::int64_t kMapSlack = std::int64_t{64} << 20;

// Finished rows of the tokens behind the last full block, as a record's payload.
std::vector<std::uint8_t> partial_payload(const SequenceCache& cache, std::int64_t first) {
  std::vector<std::uint8_t> bytes;
  for (const Store& store : cache.plan().stores) {
    if (!store.growing()) continue;
    const std::int64_t first_row = store.rows_at(first), rows = store.rows_at(cache.length()) - first_row;
    if (rows == 0) continue;
    const PageRows at = cache.page_rows(store.id, first_row, rows);
    bytes.insert(bytes.end(), at.data, at.data + rows * store.row.data_bytes());
    bytes.insert(bytes.end(), at.scale, at.scale + rows * store.row.scale_bytes());
  }
  return bytes;
}

std::vector<PageRef> pages_of_block(const SequenceCache& cache, std::int64_t block) {
  std::vector<PageRef> pages;
  for (const Store& store : cache.plan().stores)
    if (store.growing()) pages.push_back(cache.page(store.id, block));
  return pages;
}

}  // namespace

std::unique_ptr<PrefixStore> PrefixStore::open(const Model& model, const PrefixStoreOptions& options) {
  return std::make_unique<PrefixStore>(model.plan(), identify_model(model), options);
}

PrefixStore::PrefixStore(const CachePlan& plan, const ModelIdentity& identity,
                         const PrefixStoreOptions& options)
    : plan_(plan), identity_(identity), options_(options) {
  if (options.limit_bytes < kLeastStoreBytes)
    throw Error(ErrorCode::kUsage,
                fmt::format("prefix store {}: a limit of {} bytes is too small; give at least {}",
                            options.folder.string(), options.limit_bytes, kLeastStoreBytes));
  EnvironmentOptions env;
  env.read_only = options.read_only;
  env.map_bytes = options.limit_bytes / 4 * 5 + kMapSlack;
  env_ = Environment::open(options.folder, env);
  if (!env_->read_only() && !options.read_only)
    writer_ = std::make_unique<WriteBehind>(env_, plan_, identity_.fingerprint, identity_.description,
                                            WriteBehindOptions{options.limit_bytes, options.queue_bytes});
}

PrefixStore::~PrefixStore() = default;

void PrefixStore::damage(RecordKind kind, Bytes place) {
  if (writer_) writer_->report_damage(kind, place);
}

// Where the store has nothing of this model: what it has instead.
std::string PrefixStore::why_no_model(const Txn& txn) const {
  if (txn.get(Table::kModels, bytes_of(identity_.fingerprint))) return {};
  Cursor cursor(txn, Table::kModels);
  std::string nearest;
  std::int64_t others = 0;
  for (bool there = cursor.first(); there; there = cursor.next()) {
    ++others;
    const Bytes text = cursor.value();
    nearest = identity_difference({text.begin(), text.end()}, identity_.description);
  }
  if (others == 0) return "the store is empty";
  return others == 1 ? fmt::format("the store holds nothing of this model, only of {}", nearest)
                     : fmt::format("the store holds nothing of this model, only of {} others", others);
}

PrefixHit PrefixStore::lookup(std::span<const std::int32_t> tokens, SnapshotPart part,
                              std::int64_t snapshot_at_most) {
  PrefixHit hit;
  try {
    const ReadTxn txn(*env_);
    hit.chain_ = find_chain(txn, model(), tokens);
    if (hit.length() > 0)
      hit.snapshot_ = find_snapshot(txn, model(), hit.chain_, tokens, part, snapshot_at_most);
    if (hit.length() == 0 && !tokens.empty())
      if (std::string why = why_no_model(txn); !why.empty()) hit.chain_.why_not_more = std::move(why);
  } catch (const Error& error) {
    hit = {};
    hit.chain_.why_not_more = error.what();
  }
  hit.tokens_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(hit.length()));
  for (const auto& place : hit.chain_.damaged) damage(RecordKind::kBlock, place);
  if (writer_ && !hit.chain_.links.empty()) writer_->touch(hit.chain_.links.back().place.chain_key());
  if (writer_ && hit.snapshot_) writer_->touch(hit.snapshot_->place.snapshot_key());
  const std::lock_guard lock(mutex_);
  ++stats_.lookups;
  stats_.tokens_asked += static_cast<std::int64_t>(tokens.size());
  stats_.tokens_found += hit.length();
  return hit;
}

// Copies the rows of one block for tokens from the cache's length up to `length`.
std::optional<std::string> PrefixStore::restore_block(const Txn& txn, const ChainLink& found,
                                                      const PrefixHit& hit, std::int64_t length,
                                                      SequenceCache& cache) {
  const auto tokens =
      std::span(hit.tokens_)
          .subspan(static_cast<std::size_t>(found.first), static_cast<std::size_t>(found.tokens));
  ChainLink link = found;
  std::string problem;
  auto record = StoredRecord::find(txn, RecordKind::kBlock, link.place.bytes(), problem);
  if (!record) {  // a part of a block gives way to a longer part with the same rows
    const auto longer = best_child(txn, model(), link.parent, link.first, tokens);
    if (!longer || longer->tokens < link.tokens) return "was evicted meanwhile";
    link.place = longer->place;
    record = StoredRecord::find(txn, RecordKind::kBlock, link.place.bytes(), problem);
    if (!record) return "was evicted meanwhile";
  }
  if (problem.empty()) problem = record->load(txn).value_or("");
  if (problem.empty()) problem = record->check_payload().value_or("");
  if (!problem.empty()) {
    damage(RecordKind::kBlock, link.place.bytes());
    return problem;
  }
  if (const auto differs = record->header().mismatch(plan_, identity_.fingerprint, link.parent, link.first))
    return differs;
  if (record->header().common_tokens(tokens) != link.tokens)
    return "was replaced by one of other tokens meanwhile";
  const std::vector<std::int32_t> stored = record->header().tokens();
  RecordInfo info;
  info.tokens = stored;
  std::int64_t at = 0;
  for (const RecordRows& rows : record_rows(plan_, info)) {
    const Store& store = plan_.stores[static_cast<std::size_t>(rows.store)];
    const std::int64_t base = store.rows_at(link.first);
    const std::int64_t begin = std::max(store.rows_at(cache.length()), base) - base;
    const std::int64_t end = std::min(store.rows_at(length) - base, rows.rows);
    if (begin < end) {
      const MutableRow to = cache.mutable_row(store.id, base + begin);
      record->copy_payload(at + begin * rows.data_bytes, (end - begin) * rows.data_bytes, to.data);
      record->copy_payload(at + rows.rows * rows.data_bytes + begin * rows.scale_bytes,
                           (end - begin) * rows.scale_bytes, to.scale);
    }
    at += rows.bytes();
  }
  return std::nullopt;
}

PrefixRestored PrefixStore::restore(const PrefixHit& hit, std::int64_t length, SequenceCache& cache) {
  SEEKLINE_CHECK(length <= hit.length(), "no more is restored than was found");
  SEEKLINE_CHECK(cache.length() <= hit.length() &&
                     std::equal(cache.tokens().begin(), cache.tokens().end(), hit.tokens_.begin()),
                 "a cache is continued by its own tokens");
  PrefixRestored restored{cache.length(), {}};
  if (cache.length() >= length) return restored;
  cache.reserve(length);
  try {
    const ReadTxn txn(*env_);
    for (const ChainLink& link : hit.chain_.links) {
      const std::int64_t end = std::min(link.first + link.tokens, length);
      if (end <= restored.length) continue;
      if (const auto problem = restore_block(txn, link, hit, end, cache)) {
        restored.why_not_all = fmt::format("the block behind token {} {}", link.first, *problem);
        break;
      }
      const std::int64_t from = restored.length;
      cache.advance(from, std::span(hit.tokens_)
                              .subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(end - from)));
      restored.length = end;
      if (end == length) break;
    }
  } catch (const Error& error) {
    restored.why_not_all = error.what();
  }
  return restored;
}

bool PrefixStore::restore_snapshot(const PrefixHit& hit, SequenceCache& cache, std::string& why_not) {
  why_not.clear();
  if (!hit.snapshot_) {
    why_not = "no snapshot was found";
    return false;
  }
  const ChainSnapshot& found = *hit.snapshot_;
  try {
    const ReadTxn txn(*env_);
    std::string problem;
    auto record = StoredRecord::find(txn, RecordKind::kSnapshot, found.place.bytes(), problem);
    if (!record) {
      why_not = fmt::format("the snapshot at token {} was evicted meanwhile", found.position());
      return false;
    }
    if (problem.empty()) problem = record->load(txn).value_or("");
    if (problem.empty()) problem = record->check_payload().value_or("");
    const bool damaged = !problem.empty();
    if (damaged) damage(RecordKind::kSnapshot, found.place.bytes());
    const auto tokens =
        std::span(hit.tokens_)
            .subspan(static_cast<std::size_t>(found.first), static_cast<std::size_t>(found.tokens));
    if (!damaged)
      problem =
          record->header().mismatch(plan_, identity_.fingerprint, found.parent, found.first).value_or("");
    if (problem.empty() &&
        (record->header().token_count() != found.tokens ||
         record->header().common_tokens(tokens) != found.tokens || record->header().part() < found.part))
      problem = "was replaced meanwhile";
    if (!problem.empty()) {
      why_not = fmt::format("the snapshot at token {} {}", found.position(), problem);
      return false;
    }
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(record->header().payload_bytes()));
    record->copy_payload(0, record->header().payload_bytes(), bytes.data());
    put_snapshot(cache, record->header().part(), found.position(), bytes);
  } catch (const Error& error) {
    why_not = error.what();
  }
  return why_not.empty();
}

PrefixStored PrefixStore::store(const SequenceCache& cache, std::optional<SnapshotPart> snapshot) {
  PrefixStored stored;
  if (!writer_) {
    stored.why_not_all =
        env_->why_read_only().empty() ? "the store is open for reading only" : env_->why_read_only();
    return stored;
  }
  const std::int64_t full = cache.length() / kBlockTokens, per_block = block_bytes(plan_);
  const bool has_rest = cache.length() % kBlockTokens != 0;
  try {
    const ReadTxn txn(*env_);
    stored.blocks_there = count_full_blocks(txn, model(), cache.tokens());
  } catch (const Error& error) {
    stored.why_not_all = error.what();
    return stored;
  }
  stored.blocks_there = writer_->blocks_when_written(cache.tokens(), stored.blocks_there);
  StoreJob job;
  job.first_block = stored.blocks_there;
  std::int64_t room = writer_->room();
  for (std::int64_t block = stored.blocks_there; block < full && room >= per_block;
       ++block, room -= per_block)
    job.blocks.push_back(pages_of_block(cache, block));
  stored.blocks_queued = static_cast<std::int64_t>(job.blocks.size());
  const bool all = stored.blocks_there + stored.blocks_queued == full;
  const std::int64_t snapshot_needs = snapshot ? snapshot_bytes(plan_, *snapshot, cache.length()) : 0;
  if (all && has_rest && room >= per_block) {
    job.partial = partial_payload(cache, full * kBlockTokens);
    room -= static_cast<std::int64_t>(job.partial.size());
    stored.partial_queued = true;
  }
  if (snapshot && cache.length() > 0 && all && stored.partial_queued == has_rest && room >= snapshot_needs) {
    job.snapshot = take_snapshot(cache, *snapshot);
    stored.snapshot_queued = true;
  }
  if (!all || stored.partial_queued != has_rest || (snapshot && !stored.snapshot_queued))
    stored.why_not_all = "the writer's queue is full";
  const std::int64_t tokens =
      all ? cache.length() : (stored.blocks_there + stored.blocks_queued) * kBlockTokens;
  if (tokens == 0) return stored;
  job.tokens.assign(cache.tokens().begin(), cache.tokens().begin() + static_cast<std::ptrdiff_t>(tokens));
  job.bytes = stored.blocks_queued * per_block +
              static_cast<std::int64_t>(job.partial.size() + job.tokens.size() * sizeof(std::int32_t)) +
              (job.snapshot ? snapshot_needs : 0);
  writer_->push(std::move(job));
  return stored;
}

void PrefixStore::flush() {
  if (writer_) writer_->flush();
}

void PrefixStore::hurry() {
  if (writer_) writer_->hurry();
}

PrefixStoreStats PrefixStore::stats() const {
  PrefixStoreStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  if (writer_) stats.write = writer_->stats();
  return stats;
}

}  // namespace seekline
