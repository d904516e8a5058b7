// Rows of prefixes that outlive this process's memory, as the engine sees them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/timeline.h"

namespace seekline {

/// Implemented by persist/. Thread-safe. Whatever is wrong with a store is a miss with a reason; nothing here
/// throws but Error(kLimit), where pages find no room.
class RowSource {
 public:
  virtual ~RowSource() = default;

  struct Found {
    std::int64_t rows = 0;     ///< tokens whose rows can be loaded
    std::string why_not_more;  ///< empty where all can
  };
  virtual Found find(std::span<const std::int32_t> tokens) = 0;

  /// Adds rows to `timeline`, whose tokens begin `tokens`, and the last stored rings at or before
  /// `rings_at_most`. Returns why not all that find() promised; empty where it is there.
  virtual std::string load(std::span<const std::int32_t> tokens, std::int64_t rings_at_most,
                           Timeline& timeline) = 0;

  /// Takes what it lacks of `timeline`, which is not approximate, without waiting for a disk; with the rings
  /// at the end of its rows where `rings`.
  virtual void save(const Timeline& timeline, bool rings) = 0;

  /// Memory is short: what was taken and still refers to pages lets go of them soon.
  virtual void hurry() = 0;
};

}  // namespace seekline
