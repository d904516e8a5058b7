#include "persist/job_writer.h"

#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/check.h"

namespace seekline {
namespace {

std::uint64_t sum_of(const std::vector<Bytes>& parts) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const Bytes part : parts) XXH3_64bits_update(state.get(), part.data(), part.size());
  return XXH3_64bits_digest(state.get());
}

// Writes the records of one chain from its start.
class JobWriter {
 public:
  JobWriter(WriteTxn& txn, const ChainModel& model, const StoreJob& job, WriteStats& done)
      : txn_(txn), model_(model), job_(job), done_(done), parent_(model.fingerprint), time_(now_ms()) {}

  void write() {
    const std::int64_t count = static_cast<std::int64_t>(job_.tokens.size());
    for (std::int64_t block = 0; block < count / kBlockTokens; ++block) full_block(block);
    if (count >= kBlockTokens) mark_used(txn_, parent_, time_);
    if (!job_.partial.empty()) partial();
    if (job_.snapshot) snapshot();
  }

 private:
  RecordInfo info(RecordKind kind, std::int64_t first, std::span<const std::int32_t> tokens) const {
    RecordInfo info;
    info.kind = kind;
    info.fingerprint = model_.fingerprint;
    info.parent = parent_;
    info.first = first;
    info.tokens = tokens;
    return info;
  }

  void put(const RecordInfo& info, const Place& place, const std::vector<Bytes>& payload) {
    put_record(txn_, info.kind, place.bytes(), encode_header(model_.plan, info, sum_of(payload)), payload);
    mark_used(txn_, record_key(info.kind, place.bytes()), time_);
  }

  // What stands at the place of `info`: true for the very record, false for nothing. A broken record is
  // erased.
  bool stands(const RecordInfo& info, const Place& place) {
    std::string problem;
    const auto there = StoredRecord::find(txn_, info.kind, place.bytes(), problem);
    if (!there) return false;
    if (!problem.empty()) {
      erase_record(txn_, info.kind, place.bytes());
      return false;
    }
    const HeaderView& header = there->header();
    const std::int64_t count = static_cast<std::int64_t>(info.tokens.size());
    if (header.mismatch(model_.plan, model_.fingerprint, parent_, info.first) ||
        header.token_count() != count || header.common_tokens(info.tokens) != count)
      throw Error(ErrorCode::kLimit,
                  fmt::format("the place of tokens {} to {} is taken by others with the same hash",
                              info.first, info.first + count));
    return true;
  }

  void full_block(std::int64_t block) {
    const std::int64_t first = block * kBlockTokens;
    const auto tokens = std::span(job_.tokens)
                            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(kBlockTokens));
    const Place place(parent_, tokens);
    const RecordInfo record = info(RecordKind::kBlock, first, tokens);
    if (!stands(record, place)) {
      const std::int64_t index = block - job_.first_block;
      if (index < 0 || index >= static_cast<std::int64_t>(job_.blocks.size()))
        throw Error(ErrorCode::kLimit, fmt::format("the block behind token {} was evicted meanwhile", first));
      std::vector<Bytes> payload;
      std::size_t store = 0;
      for (const RecordRows& rows : record_rows(model_.plan, record))
        payload.emplace_back(job_.blocks[static_cast<std::size_t>(index)][store++]->bytes(),
                             static_cast<std::size_t>(rows.bytes()));
      erase_shorter(tokens, first);
      put(record, place, payload);
      ++done_.blocks_written;
    }
    before_last_ = parent_;
    parent_ = place.chain_key();
  }

  std::span<const std::int32_t> last_tokens() const {
    const std::size_t count = job_.tokens.size() % static_cast<std::size_t>(kBlockTokens);
    return std::span(job_.tokens).last(count);
  }
  std::int64_t last_first() const {
    return static_cast<std::int64_t>(job_.tokens.size() - last_tokens().size());
  }

  void partial() {
    const auto tokens = last_tokens();
    const auto covered = best_child(txn_, model_, parent_, last_first(), tokens);
    if (covered && covered->tokens == static_cast<std::int64_t>(tokens.size())) {
      mark_used(txn_, covered->place.chain_key(), time_);
      return;
    }
    const RecordInfo record = info(RecordKind::kBlock, last_first(), tokens);
    const Place place(parent_, tokens);
    if (stands(record, place)) return;
    erase_shorter(tokens, last_first());
    put(record, place, {job_.partial});
    ++done_.partials_written;
  }

  // Partial blocks that `tokens` continue hold nothing that the longer block has not.
  void erase_shorter(std::span<const std::int32_t> tokens, std::int64_t first) {
    Cursor any(txn_, Table::kBlocks);
    if (!any.seek(bytes_of(parent_)) || !starts_with(any.key(), bytes_of(parent_))) return;
    for (std::size_t n = 1; n < tokens.size(); ++n) {
      const Place place(parent_, tokens.first(n));
      std::string problem;
      const auto there = StoredRecord::find(txn_, RecordKind::kBlock, place.bytes(), problem);
      if (!there) continue;
      const bool shorter =
          !problem.empty() || (there->header().first() == first &&
                               there->header().common_tokens(tokens) == static_cast<std::int64_t>(n));
      if (shorter) erase_record(txn_, RecordKind::kBlock, place.bytes());
    }
  }

  // A snapshot lies under the parent of the block that its last token is in.
  void snapshot() {
    auto tokens = last_tokens();
    std::int64_t first = last_first();
    if (tokens.empty()) {
      if (job_.tokens.empty()) return;
      tokens = std::span(job_.tokens).last(static_cast<std::size_t>(kBlockTokens));
      first -= kBlockTokens;
      parent_ = before_last_;
    }
    RecordInfo record = info(RecordKind::kSnapshot, first, tokens);
    record.part = job_.snapshot->part;
    const Place place(parent_, tokens);
    if (stands(record, place)) {
      std::string problem;
      const auto there = StoredRecord::find(txn_, RecordKind::kSnapshot, place.bytes(), problem);
      if (there->header().part() >= record.part) {
        mark_used(txn_, place.snapshot_key(), time_);
        return;
      }
    }
    put(record, place, {job_.snapshot->bytes});
    ++done_.snapshots_written;
  }

  WriteTxn& txn_;
  const ChainModel& model_;
  const StoreJob& job_;
  WriteStats& done_;
  Key parent_, before_last_;  // chain up to here, and without its last block
  const std::uint64_t time_;
};

}  // namespace

void write_job(WriteTxn& txn, const ChainModel& model, const StoreJob& job, WriteStats& done) {
  JobWriter(txn, model, job, done).write();
}

std::uint64_t last_used(const Txn& txn, const Key& record) {
  const auto there = txn.get(Table::kUsed, bytes_of(record));
  std::uint64_t time = 0;
  if (there && there->size() == sizeof time) std::memcpy(&time, there->data(), sizeof time);
  return time;
}

void mark_used(WriteTxn& txn, const Key& record, std::uint64_t time) {
  if (last_used(txn, record) >= time) return;
  txn.put(Table::kUsed, bytes_of(record), Bytes{reinterpret_cast<const std::uint8_t*>(&time), sizeof time});
}

void describe_model(WriteTxn& txn, const Key& fingerprint, const std::string& description) {
  if (txn.get(Table::kModels, bytes_of(fingerprint))) return;
  txn.put(Table::kModels, bytes_of(fingerprint),
          Bytes{reinterpret_cast<const std::uint8_t*>(description.data()), description.size()});
}

}  // namespace seekline
