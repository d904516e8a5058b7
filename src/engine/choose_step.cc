#include <algorithm>

#include "engine/sequence.h"

namespace seekline {

std::vector<SequenceStep> choose_step(std::span<const std::unique_ptr<Sequence>> running,
                                      std::int64_t batch_tokens, std::int64_t chunk_beside) {
  std::vector<SequenceStep> parts;
  std::vector<Sequence*> reading;
  for (const auto& sequence : running) {
    if (!sequence->decodes()) {
      reading.push_back(sequence.get());
    } else if (static_cast<std::int64_t>(parts.size()) < batch_tokens) {
      parts.push_back({sequence.get(), 1, {}, false});
    }
  }
  const auto decodes = static_cast<std::int64_t>(parts.size());
  std::int64_t left = decodes == 0 ? batch_tokens : std::min(chunk_beside, batch_tokens - decodes);
  std::stable_sort(reading.begin(), reading.end(), [](const Sequence* a, const Sequence* b) {
    return a->last_chunk_step < b->last_chunk_step;
  });
  for (Sequence* sequence : reading) {
    if (left <= 0) break;
    const std::int64_t count = std::min(left, sequence->timeline->pending());
    parts.push_back({sequence, count, {}, false});
    left -= count;
  }
  return parts;
}

}  // namespace seekline
