// What reads the tool calls of a reply; internal to ReplyParser.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply.h"

namespace seekline::reply {

/// Text of which every byte knows whether it may be part of a control token.
struct MarkedText {
  std::string text;
  std::string marks;  ///< same length: 1 where a control token may be

  void append(std::string_view more, bool may_be_marker);
  void append(const MarkedText& more, std::size_t from = 0);
  void drop_front(std::size_t bytes);
  std::size_t size() const { return text.size(); }
};

/// A tag in full. Bytes [marker_at, marker_at + marker_size) of it must come from a control token.
struct Tag {
  std::string text;
  std::size_t marker_at = 0;
  std::size_t marker_size = 0;
};

enum class Match : std::uint8_t { kNo, kPartial, kYes };

/// Whether `tag` stands at byte `at`; kPartial: the text ends inside what may still become it.
Match match(const MarkedText& text, std::size_t at, const Tag& tag);

/// Reads a block of calls. Every read() gets the same text with more at its end.
class CallReader {
 public:
  enum class State : std::uint8_t { kMore, kComplete, kBroken };
  virtual ~CallReader() = default;
  /// `is_last`: no more text will come; the answer is then kComplete or kBroken.
  virtual State read(const MarkedText& text, bool is_last) = 0;
  /// Complete calls, and the one being read as far as it is certain (its arguments then lack the closing
  /// brace).
  const std::vector<ReplyCall>& calls() const { return calls_; }
  /// The last call's name and arguments are still growing.
  virtual bool last_call_open() const = 0;

 protected:
  std::vector<ReplyCall> calls_;
};

/// `at`: where the opening tag ends.
std::unique_ptr<CallReader> read_dsml_calls(const ReplySyntax& syntax, std::size_t at);
std::unique_ptr<CallReader> read_json_calls(std::size_t at);

inline constexpr std::string_view kDsmlMarker = "｜DSML｜";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kJsonCallOpen = "<tool_call>";
inline constexpr std::string_view kJsonCallClose = "</tool_call>";

Tag dsml_tag(std::string_view before, std::string_view after);

}  // namespace seekline::reply
