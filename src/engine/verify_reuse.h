// Holds a warm timeline against a cold one, bit by bit.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "engine/timeline.h"
#include "seekline/model.h"

namespace seekline {

/// The first difference between what two caches hold of the same tokens: rows of growing stores by position,
/// then, where `rings` says so, the rows that are visible in the rings. Names store, layer and position;
/// nothing where all bits agree.
std::optional<std::string> first_difference(const SequenceCache& warm, const SequenceCache& cold, bool rings);

/// Computes the prompt of `warm`, which is done and has answered `logits`, from nothing. Throws
/// Error(kInternal) at the first bit that differs.
void verify_reuse(Model& model, const Timeline& warm, std::span<const float> logits);

}  // namespace seekline
