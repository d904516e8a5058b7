// verify_store: every byte of a store against its checksums.
#include <fmt/format.h>

#include "persist/catalog.h"
#include "persist/environment.h"
#include "persist/maintenance.h"
#include "persist/page_walk.h"

namespace seekline {
namespace {

constexpr std::size_t kMostProblems = 1000;

struct Unsound {
  RecordKind kind;
  std::vector<std::uint8_t> place;
};

class Verification {
 public:
  Verification(const Txn& txn, StoreCheck& check) : txn_(txn), catalog_(txn), check_(check) {}

  std::vector<Unsound> run() {
    for (const CatalogEntry& block : catalog_.blocks) record(RecordKind::kBlock, block);
    for (const CatalogEntry& snapshot : catalog_.snapshots) record(RecordKind::kSnapshot, snapshot);
    for (const Key& key : catalog_.dangling_used)
      tell(fmt::format("a time of use belongs to no record: {}", key.hex()));
    for (const Key& key : catalog_.dangling_pieces)
      tell(fmt::format("pieces belong to no record: {}", key.hex()));
    return std::move(unsound_);
  }

 private:
  void tell(std::string sentence) {
    if (check_.problems.size() < kMostProblems) check_.problems.push_back(std::move(sentence));
  }

  void record(RecordKind kind, const CatalogEntry& entry) {
    const std::string what = problem_of(kind, entry);
    if (what.empty()) {
      ++(kind == RecordKind::kBlock ? check_.blocks : check_.snapshots);
      return;
    }
    tell(fmt::format("{} {} {}", kind == RecordKind::kBlock ? "block" : "snapshot", entry.key.hex(), what));
    unsound_.push_back({kind, entry.place});
  }

  std::string problem_of(RecordKind kind, const CatalogEntry& entry) const {
    std::string problem;
    auto found = StoredRecord::find(txn_, kind, entry.place, problem);
    if (!problem.empty()) return problem;
    if (const auto wrong = found->load(txn_)) return *wrong;
    if (const auto wrong = found->check_payload()) return *wrong;
    const HeaderView& header = found->header();
    const Place place(entry.parent, header.tokens());
    if (header.parent() != entry.parent ||
        !std::equal(entry.place.begin(), entry.place.end(), place.bytes().begin(), place.bytes().end()))
      return "lies at a place that is not its own";
    if (entry.children > 0 && header.token_count() != kBlockTokens)
      return "is continued though it is not full";
    return chain_problem(entry, header);
  }

  // A chain begins at its model's fingerprint and has no gaps.
  std::string chain_problem(const CatalogEntry& entry, const HeaderView& header) const {
    if (header.first() == 0)
      return entry.parent == header.fingerprint() ? std::string() : "begins a chain under another model";
    const auto above = catalog_.block_of.find(entry.parent);
    if (above == catalog_.block_of.end()) return "continues a block that is not there";
    std::string problem;
    const auto parent =
        StoredRecord::find(txn_, RecordKind::kBlock, catalog_.blocks[above->second].place, problem);
    if (!problem.empty()) return "continues a block that is damaged";
    if (parent->header().first() + kBlockTokens != header.first() ||
        parent->header().fingerprint() != header.fingerprint())
      return "does not fit the block that it continues";
    return {};
  }

  const Txn& txn_;
  const Catalog catalog_;
  StoreCheck& check_;
  std::vector<Unsound> unsound_;
};

}  // namespace

StoreCheck verify_store(const std::filesystem::path& folder, bool erase) {
  const auto env = Environment::open(folder, {.read_only = !erase});
  if (erase && env->read_only()) throw Error(ErrorCode::kIo, env->why_read_only());
  StoreCheck check;
  if (!erase) {
    const ReadTxn txn(*env);
    if (const auto problem = tree_problem(txn.handle()))
      check.problems.push_back("the store's pages: " + *problem);
    Verification(txn, check).run();
    return check;
  }
  try {
    WriteTxn txn(*env);
    for (const Unsound& record : Verification(txn, check).run())
      check.erased += erase_record(txn, record.kind, record.place);
    txn.commit();
  } catch (const MapFull&) {
    throw Error(ErrorCode::kLimit,
                fmt::format("prefix store {}: there is no room in its map", folder.string()));
  }
  return check;
}

}  // namespace seekline
