// Replies: from generated text back to reasoning, content and tool calls, while it streams (spec: text).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace seekline {

/// Where the prompt left off.
enum class ReplyStart : std::uint8_t {
  kReasoning,           ///< after a fresh <think>
  kReasoningContinued,  ///< inside reasoning that the client began
  kContent,             ///< after </think>, or in a format without reasoning
  kContentContinued,    ///< inside content that the client began
  kCalls,               ///< the prompt opened the tool-call block
};

/// How a format writes a reply. The tags are spelled in full; `marker` is the part of them that is a control
/// token.
struct ReplySyntax {
  enum class Kind : std::uint8_t {
    kPlain,     ///< content only
    kDsml,      ///< <think>, then content, then a DSML block
    kCallJson,  ///< content, then <tool_call>{"name": …, "arguments": {…}}</tool_call>
  };
  Kind kind = Kind::kPlain;
  std::string block;      ///< kDsml: tag names behind the marker, e.g. " calls"
  std::string invoke;     ///< e.g. " invoke"
  std::string parameter;  ///< e.g. " parameter"
  /// The prompt ends right before a blank that belongs to the template (V2): one leading blank is not
  /// content.
  bool drops_first_blank = false;
};

struct ReplyCall {
  std::string name;
  std::string arguments;  ///< a JSON object as text
};

/// The whole of a reply. Calls are executable: every one was well-formed, and so was the block around them.
struct Reply {
  std::string reasoning;
  std::string content;
  std::vector<ReplyCall> calls;
};

/// Something that became certain.
struct ReplyEvent {
  enum class Kind : std::uint8_t {
    kReasoning,      ///< more reasoning
    kContent,        ///< more content
    kCallBegin,      ///< call `call` of function `text`
    kCallArguments,  ///< more of the arguments of call `call`
    kCallEnd,        ///< call `call` is complete and executable
    /// The block turned out malformed: calls begun before stay unfinished (their arguments do not parse),
    /// none is executable, and the block's text follows as content (or reasoning, where it stood there).
    kCallsRejected,
  };
  Kind kind;
  int call = -1;
  std::string text;
};

struct ReplyOptions {
  ReplyStart start = ReplyStart::kContent;
  bool calls_allowed = false;
  /// Send the arguments of a block's first call while they are written. Its last byte, and everything of
  /// later calls, waits for the end of the block, so a malformed block never leaves arguments that parse.
  /// Without this nothing of a block is sent before its end.
  bool stream_calls = true;
};

/// Reads one reply. Any split of the text gives the same Reply and the same text joined per kind; no event
/// holds a piece of a tag that later becomes one, nor a piece of a character.
class ReplyParser {
 public:
  ReplyParser(const ReplySyntax& syntax, const ReplyOptions& options);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  /// More text. `markers` false: the text cannot hold control tokens (it came as ordinary ids), so what looks
  /// like one is quoted text and stays content.
  std::vector<ReplyEvent> feed(std::string_view text, bool markers = true);
  /// The reply is over: what was held back, and the calls of a block that has no end of its own.
  std::vector<ReplyEvent> finish();

  /// A well-formed block of calls has ended: whatever follows is dropped, generation can stop.
  bool calls_complete() const;
  /// What has been read so far; the whole reply after finish().
  const Reply& reply() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same from token ids. A marker that the tokenizer has as an added token counts only when it came as
/// that token: a reply that quotes a user's fake tag in ordinary tokens does not call anything.
class ReplyStream {
 public:
  ReplyStream(const Tokenizer& tokenizer, const ReplySyntax& syntax, const ReplyOptions& options);
  std::vector<ReplyEvent> push(TokenId id);
  std::vector<ReplyEvent> finish();
  bool calls_complete() const { return parser_.calls_complete(); }
  const Reply& reply() const { return parser_.reply(); }

 private:
  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  ReplyParser parser_;
  bool tokenizer_has_markers_;
};

}  // namespace seekline
