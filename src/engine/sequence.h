// The scheduler's view of one sequence; internal to the engine room.
#pragma once

#include <memory>
#include <vector>

#include "engine/scheduler.h"

namespace seekline {

struct Sequence {
  using Clock = SequenceRequest::Clock;

  Sequence(std::uint64_t new_id, SequenceRequest new_request, std::shared_ptr<SequenceClient> new_client)
      : id(new_id),
        request(std::move(new_request)),
        client(std::move(new_client)),
        sampler(request.sampling),
        history(request.prompt),
        submitted(Clock::now()) {}

  std::int64_t prompt_tokens() const { return static_cast<std::int64_t>(request.prompt.size()); }
  std::int64_t generated() const { return static_cast<std::int64_t>(history.size()) - prompt_tokens(); }
  /// Only the token chosen last is missing.
  bool decodes() const { return generated() > 0 && timeline->pending() == 1; }

  std::uint64_t id;
  SequenceRequest request;
  std::shared_ptr<SequenceClient> client;
  Sampler sampler;
  std::vector<std::int32_t> history;   ///< prompt and chosen tokens
  std::unique_ptr<Timeline> timeline;  ///< while it runs
  std::uint64_t admitted = 0;          ///< order of admission
  std::uint64_t last_chunk_step = 0;   ///< the step that computed a piece of its prompt last
  bool started = false;                ///< has been admitted before
  std::int64_t pages_told = 0;         ///< at the last on_cache
  Clock::time_point submitted, first_start, first_choice;
  SequenceSummary summary;
};

/// A piece of a step: at most `limit` tokens that a sequence waits for.
struct SequenceStep {
  Sequence* sequence = nullptr;
  std::int64_t limit = 0;
  Run run;               ///< set where the step is computed
  bool chooses = false;  ///< the run ends with the sequence's last token
};

/// What the next step computes: the last token of everybody who decodes, and prompt tokens of the others,
/// those first who have waited longest for a chunk.
std::vector<SequenceStep> choose_step(std::span<const std::unique_ptr<Sequence>> running,
                                      std::int64_t batch_tokens, std::int64_t chunk_beside);

}  // namespace seekline
