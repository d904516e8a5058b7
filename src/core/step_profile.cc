#include "core/step_profile.h"

namespace seekline {

std::string_view step_part_name(StepPart part) {
  switch (part) {
    case StepPart::kEmbedding:
      return "embedding";
    case StepPart::kAttention:
      return "attention";
    case StepPart::kCacheReads:
      return "cache reads";
    case StepPart::kIndexer:
      return "indexer and compressor";
    case StepPart::kIndexScan:
      return "index scan";
    case StepPart::kRouter:
      return "router";
    case StepPart::kRoutedExperts:
      return "routed experts";
    case StepPart::kSharedExperts:
      return "shared experts";
    case StepPart::kFeedForward:
      return "feed-forward";
    case StepPart::kEngram:
      return "engram";
    case StepPart::kStreams:
      return "residual mixing";
    case StepPart::kElementwise:
      return "norms, RoPE, inputs";
    case StepPart::kHead:
      return "head";
    case StepPart::kOther:
    case StepPart::kCount:
      break;
  }
  return "everything else";
}

}  // namespace seekline
