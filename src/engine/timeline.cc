#include "engine/timeline.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/check.h"

namespace seekline {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostSnapshots = 8;

bool has_rings(const CachePlan& plan) {
  return std::ranges::any_of(plan.stores, [](const Store& store) { return !store.growing(); });
}

bool has_decoder(const CachePlan& plan) {
  return plan.first_decoder_layer() < static_cast<int>(plan.layers.size());
}

}  // namespace

Timeline::Timeline(PagePool& pool, DecoderMode mode) : Timeline(SequenceCache(pool), mode) {}

Timeline::Timeline(SequenceCache cache, DecoderMode mode)
    : mode_(mode),
      part_(mode == DecoderMode::kCed && has_decoder(cache.plan()) ? SnapshotPart::kEncoder
                                                                   : SnapshotPart::kAll),
      cache_(std::move(cache)),
      approximate_from_(kNever) {}

std::unique_ptr<Timeline> Timeline::fork(std::int64_t tokens) const {
  std::unique_ptr<Timeline> copy(new Timeline(cache_.fork(std::min(tokens, rows())), mode_));
  copy->snapshots_ = snapshots_;
  copy->live_ = live_;
  copy->from_ = from_;
  copy->approximate_from_ = approximate_from_;
  copy->truncate(tokens);
  return copy;
}

void Timeline::begin(std::span<const std::int32_t> tokens, std::int64_t prompt, ReplayWay way) {
  const auto common = std::ranges::mismatch(tokens, cache_.tokens()).in1 - tokens.begin();
  // Rows behind a bounded replay are kept only for another one.
  truncate(way == ReplayWay::kBounded ? common : std::min<std::int64_t>(common, approximate_from_));
  PromptQuestion question;
  question.tokens = std::ssize(tokens);
  question.prompt = prompt;
  question.rows = cache_.length();
  question.mode = mode_;
  question.way = way;
  work_ = plan_prompt(cache_.plan(), question, ring_points());
  if (work_.windows == PromptWork::Windows::kPoint) {
    if (const bool live = live_ >= 0; !live || work_.point > 0)
      put_snapshot(cache_, *snapshots_[static_cast<std::size_t>(work_.point) - (live ? 1 : 0)]);
  }
  truncate(work_.kept);
  tokens_.assign(tokens.begin(), tokens.end());
  next_ = work_.start;
  live_ = work_.start >= work_.right_from ? work_.start : -1;
  cut_ =
      has_rings(cache_.plan()) ? std::max<std::int64_t>(0, prompt - std::max(1, cache_.plan().window)) : -1;
  if (work_.windows == PromptWork::Windows::kBoundedReplay)
    approximate_from_ = std::min(approximate_from_, work_.kept);
  describe();
  report_.prompt_tokens = prompt;
}

void Timeline::describe() {
  report_ = {};
  report_.reused_tokens = work_.kept;
  report_.replayed_tokens = work_.kept - work_.start;
  report_.computed_tokens = size() - work_.start;
  report_.approximate = approximate_from_ != kNever;
  if (work_.kept > 0) report_.from = from_;
  from_ = "session";
  if (work_.kept + 1 < size())
    report_.why_not_more =
        work_.kept == 0
            ? "nothing was kept that begins like this prompt"
            : fmt::format("nothing that was kept goes on like this prompt behind its first {} tokens",
                          work_.kept);
  switch (work_.windows) {
    case PromptWork::Windows::kNone:
      break;
    case PromptWork::Windows::kPoint:
      report_.windows = fmt::format("kept at {}", work_.start);
      break;
    case PromptWork::Windows::kExactReplay:
      report_.windows = fmt::format("exact replay from {}", work_.start);
      break;
    case PromptWork::Windows::kBoundedReplay:
      report_.windows = fmt::format("bounded replay from {} (approximate)", work_.start);
      break;
  }
}

void Timeline::push(std::int32_t token) {
  SEEKLINE_CHECK(done(), "a token is chosen when those before it are computed");
  tokens_.push_back(token);
}

void Timeline::stop() {
  tokens_.assign(cache_.tokens().begin(), cache_.tokens().end());
  if (next_ < size()) live_ = -1;  // a replay was left half done
  next_ = size();
}

void Timeline::truncate(std::int64_t tokens) {
  cache_.truncate(std::min(tokens, cache_.length()));
  tokens_.resize(static_cast<std::size_t>(cache_.length()));
  next_ = cache_.length();
  if (live_ > cache_.length()) live_ = -1;
  std::erase_if(snapshots_, [&](const auto& snapshot) { return snapshot->length > cache_.length(); });
  if (cache_.length() <= approximate_from_) approximate_from_ = kNever;
}

void Timeline::rows_restored(const char* from) {
  from_ = from;
  tokens_.assign(cache_.tokens().begin(), cache_.tokens().end());
  next_ = size();
}

std::vector<RingPoint> Timeline::ring_points() const {
  std::vector<RingPoint> points;
  if (live_ >= 0) points.push_back({live_, part_});
  for (const auto& snapshot : snapshots_) points.push_back({snapshot->length, snapshot->part});
  return points;
}

Run Timeline::next_run(std::int64_t limit) const {
  SEEKLINE_CHECK(!done() && limit > 0, "a run has tokens");
  std::int64_t end = std::min(size(), next_ + limit);
  if (next_ < cut_ && cut_ < end) end = cut_;
  Run run;
  run.cache = const_cast<SequenceCache*>(&cache_);
  run.first_position = next_;
  run.tokens =
      std::span(tokens_).subspan(static_cast<std::size_t>(next_), static_cast<std::size_t>(end - next_));
  run.window_floor = work_.window_floor;
  run.decoder_window_floor = work_.decoder_window_floor;
  run.write_floor = work_.kept;
  run.decoder_from = std::clamp<std::int64_t>(work_.decoder_start - next_, 0, end - next_);
  return run;
}

void Timeline::ran(const Run& run) {
  const auto count = static_cast<std::int64_t>(run.tokens.size());
  SEEKLINE_CHECK(run.first_position == next_, "runs are computed in order");
  next_ += count;
  live_ = next_ >= work_.right_from ? next_ : -1;
  const int layers = static_cast<int>(cache_.plan().layers.size());
  const int encoder = cache_.plan().first_decoder_layer();
  report_.encoder_evaluations += count * encoder;
  report_.decoder_evaluations += (count - run.decoder_from) * (layers - encoder);
  if (live_ < 0 || approximate() || !has_rings(cache_.plan())) return;
  std::int64_t before = 0;
  for (const auto& snapshot : snapshots_)
    if (snapshot->length <= live_) before = snapshot->length;
  if (live_ - before >= std::max(1, cache_.plan().window) || (live_ == cut_ && live_ > before))
    add_snapshot(std::make_shared<Snapshot>(take_snapshot(cache_, part_, live_)));
}

void Timeline::add_snapshot(std::shared_ptr<const Snapshot> snapshot) {
  SEEKLINE_CHECK(can_use(snapshot->part), "windows of all layers are needed");
  const auto behind =
      std::ranges::find_if(snapshots_, [&](const auto& other) { return other->length >= snapshot->length; });
  if (behind != snapshots_.end() && (*behind)->length == snapshot->length) return;
  snapshots_.insert(behind, std::move(snapshot));
  if (snapshots_.size() > kMostSnapshots) thin_snapshots();
}

std::vector<std::shared_ptr<const Snapshot>> Timeline::resume_rings() const {
  std::vector<std::shared_ptr<const Snapshot>> rings = snapshots_;
  if (live_ > 0 && (rings.empty() || live_ > rings.back()->length) && has_rings(cache_.plan()))
    rings.push_back(std::make_shared<Snapshot>(take_snapshot(cache_, part_, live_)));
  if (rings.size() < 2) return rings;
  std::size_t earlier = rings.size() - 2;
  while (earlier > 0 && rings[earlier]->length > rings.back()->length - cache_.plan().window) --earlier;
  return {rings[earlier], rings.back()};
}

// Leaves out the snapshot that is missed least: the gap it leaves, against its distance from the end. The
// first and the last stay.
void Timeline::thin_snapshots() {
  const std::int64_t end = snapshots_.back()->length;
  std::size_t least = 1;
  double least_score = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i + 1 < snapshots_.size(); ++i) {
    if (snapshots_[i]->length == cut_) continue;
    const double gap = static_cast<double>(snapshots_[i + 1]->length - snapshots_[i - 1]->length);
    const double score = gap / static_cast<double>(end - snapshots_[i]->length + cache_.plan().window);
    if (score < least_score) {
      least_score = score;
      least = i;
    }
  }
  snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(least));
}

std::int64_t Timeline::snapshot_bytes() const {
  std::int64_t sum = 0;
  for (const auto& snapshot : snapshots_) sum += std::ssize(snapshot->bytes);
  return sum;
}

std::int64_t Timeline::bytes() const { return cache_.allocated_bytes() + snapshot_bytes(); }

}  // namespace seekline
