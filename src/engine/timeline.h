// One sequence: its cache, the tokens it shall hold, and what it takes to go on from any of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attention/batch.h"
#include "cache/snapshot.h"
#include "engine/replay_plan.h"

namespace seekline {

/// Hands out runs until the rows and windows of all its tokens are there; whoever runs forwards (a session,
/// the scheduler) takes a run, computes it and gives it back:
///
///   timeline.begin(tokens, prompt, way);
///   while (!timeline.done()) { Run run = timeline.next_run(512); forward(run); timeline.ran(run); }
///
/// What the last run answers is a function of the tokens and the decoder mode, except after a bounded replay.
/// Not thread-safe.
class Timeline {
 public:
  Timeline(PagePool& pool, DecoderMode mode);

  /// A second timeline with the rows of the first `tokens` tokens, which it shares, and the ring points among
  /// them.
  std::unique_ptr<Timeline> fork(std::int64_t tokens) const;

  /// From now on the timeline shall hold `tokens`, the first `prompt` of which are the prompt (1 <= prompt <=
  /// size). Rows of the tokens it has in common are kept.
  void begin(std::span<const std::int32_t> tokens, std::int64_t prompt, ReplayWay way);
  /// One more token, chosen after the last. Only when done().
  void push(std::int32_t token);
  /// Gives up what is not computed yet: the tokens end with the rows that are there.
  void stop();
  /// Keeps the first `tokens` tokens.
  void truncate(std::int64_t tokens);
  /// Rows of growing stores were added to the cache from elsewhere; to be called before begin(), whose report
  /// names `from`.
  void rows_restored(const char* from);
  /// The same for rings that something else was put into.
  void rings_lost() { live_ = -1; }

  bool done() const { return next_ == size(); }
  /// All tokens, computed or not.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  /// Tokens that are still to be computed, replayed ones included.
  std::int64_t pending() const { return size() - next_; }
  /// Tokens whose rows are there and, unless a bounded replay came before, right.
  std::int64_t rows() const { return cache_.length(); }

  /// The next run, of at most `limit` tokens, without wanted logits. Valid until the timeline is changed.
  Run next_run(std::int64_t limit) const;
  /// A forward computed `run`.
  void ran(const Run& run);

  SequenceCache& cache() { return cache_; }
  const SequenceCache& cache() const { return cache_; }
  DecoderMode mode() const { return mode_; }
  /// Of the last begin(); evaluations grow with the runs.
  const ReuseReport& report() const { return report_; }
  ReuseReport& report() { return report_; }
  const PromptWork& work() const { return work_; }
  /// Rows or rings hang on where a bounded replay began.
  bool approximate() const { return approximate_from_ < cache_.length(); }
  /// Keeps the tokens before them only.
  void forget_approximate() { truncate(std::min(rows(), approximate_from_)); }
  /// Where rings are right: live first, then the snapshots.
  std::vector<RingPoint> ring_points() const;
  /// The rings are right at the end of the rows: what a store on disk keeps as a snapshot.
  bool rings_at_end() const { return live_ == cache_.length(); }
  /// As rings_at_end(), where the last w tokens of the prompt begin: the point that repeating the prompt goes
  /// on from.
  bool at_resume_point() const { return rings_at_end() && live_ == cut_ && cut_ > 0; }
  SnapshotPart ring_part() const { return part_; }

  /// Memory: pages (shared ones too), rings, snapshots.
  std::int64_t bytes() const;
  std::int64_t snapshot_bytes() const;
  /// Gives up the snapshots; going on then costs a replay.
  void drop_snapshots() { snapshots_.clear(); }
  /// Rings of another timeline or a store, right after the tokens this one begins with.
  void add_snapshot(std::shared_ptr<const Snapshot> snapshot);
  /// Whether prompts can go on from rings of `part`: in exact mode windows of all layers are needed.
  bool can_use(SnapshotPart part) const {
    return part == SnapshotPart::kAll || part_ == SnapshotPart::kEncoder;
  }
  /// Rings worth keeping with the rows: the newest ones, and the newest at least w tokens before them, where
  /// a short prompt rebuilds its decoder part from.
  std::vector<std::shared_ptr<const Snapshot>> resume_rings() const;

 private:
  Timeline(SequenceCache cache, DecoderMode mode);
  void thin_snapshots();
  void describe();

  DecoderMode mode_;
  SnapshotPart part_;  // what live rings hold
  SequenceCache cache_;
  std::vector<std::int32_t> tokens_;
  std::int64_t next_ = 0;          // first token that is not computed
  std::int64_t live_ = 0;          // position at which the rings are right; -1: nowhere
  std::int64_t approximate_from_;  // rows from here on came behind a bounded replay
  std::int64_t cut_ = -1;          // a run ends here, so that a snapshot can be taken
  PromptWork work_;
  const char* from_ = "session";  // where rows came from that no prompt has used yet
  std::vector<std::shared_ptr<const Snapshot>> snapshots_;  // ascending; forks share them
  ReuseReport report_;
};

}  // namespace seekline
