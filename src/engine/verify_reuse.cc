#include "engine/verify_reuse.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/check.h"
#include "engine/executor.h"

namespace seekline {
namespace {

bool same_row(const RowFormat& format, const RowRef& a, const RowRef& b) {
  return std::memcmp(a.data, b.data, static_cast<std::size_t>(format.data_bytes())) == 0 &&
         std::memcmp(a.scale, b.scale, static_cast<std::size_t>(format.scale_bytes())) == 0;
}

}  // namespace

std::optional<std::string> first_difference(const SequenceCache& warm, const SequenceCache& cold,
                                            bool rings) {
  SEEKLINE_CHECK(warm.length() == cold.length(), "caches of the same tokens");
  const std::int64_t tokens = warm.length();
  for (const Store& store : warm.plan().stores) {
    if (!store.growing() && !rings) continue;
    const std::int64_t rows = store.rows_at(tokens);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t position = store.growing() ? i * store.tokens_per_row : tokens - rows + i;
      const bool same = store.growing() ? same_row(store.row, warm.row(store.id, i), cold.row(store.id, i))
                                        : same_row(store.row, warm.ring_row(store.id, position),
                                                   cold.ring_row(store.id, position));
      if (!same)
        return fmt::format("store \"{}\" of layer {} differs at position {}", store.name, store.owner_layer,
                           position);
    }
  }
  return std::nullopt;
}

void verify_reuse(Model& model, const Timeline& warm, std::span<const float> logits) {
  Timeline cold(model.pages(), warm.mode());
  cold.begin(warm.tokens(), warm.report().prompt_tokens, ReplayWay::kAuto);
  std::vector<float> expected(logits.size());
  while (!cold.done()) {
    Run run = cold.next_run(model.options().batch_tokens);
    const auto wanted = static_cast<std::int32_t>(run.tokens.size() - 1);
    const bool last = std::ssize(run.tokens) == cold.pending();
    if (last) run.wanted_logits = {&wanted, 1};
    model.executor().forward({&run, 1}, {expected.data(), last ? 1 : 0, model.vocab_size()});
    cold.ran(run);
  }
  std::optional<std::string> difference = first_difference(warm.cache(), cold.cache(), true);
  if (!difference && std::memcmp(expected.data(), logits.data(), logits.size_bytes()) != 0)
    difference = "the logits differ, though all rows agree";
  if (difference)
    throw Error(ErrorCode::kInternal,
                fmt::format("a prompt of {} tokens that reused {} does not equal its cold run: {}",
                            warm.size(), warm.report().reused_tokens, *difference));
}

}  // namespace seekline
