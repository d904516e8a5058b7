// Chat: from messages to a prompt, one encoding per model generation (spec: text).
//
// A prompt is a list of segments. A control segment is one token of the model's own (a turn marker, a think
// marker, ｜DSML｜) and becomes one id; everything else is plain text and is encoded without added tokens, so
// nothing that a user, a tool or an earlier answer wrote ever becomes a control token.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/reply.h"
#include "text/tokenizer.h"

namespace seekline {

/// JSON whose objects keep the order in which their keys came.
using ChatJson = nlohmann::ordered_json;

enum class ChatRole : std::uint8_t {
  kSystem,
  kDeveloper,  ///< V4 and V3.2 encoders only; the HTTP APIs do not pass it on
  kUser,
  kAssistant,
  kTool,      ///< the result of one call
  kReminder,  ///< DeepSeek's latest_reminder: date, place, client
};

struct ChatPart {
  enum class Kind : std::uint8_t { kText, kImage };
  Kind kind = Kind::kText;
  std::string text;  ///< of an image: its URL
};

struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< the JSON text, as a client sends it back
};

struct ChatTool {
  std::string name;  ///< with a namespace: "space::name"
  std::string description;
  ChatJson parameters = ChatJson::object();  ///< JSON schema
  bool strict = false;                       ///< every property required, none besides them
};

/// What the answer must look like. Enforcing it is the sampler's business; the prompt only says it.
struct ChatResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  ChatJson schema;  ///< of kJsonSchema
};

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::vector<ChatPart> content;
  std::string reasoning;                 ///< assistant
  std::vector<ChatToolCall> tool_calls;  ///< assistant
  std::string tool_call_id;              ///< tool
  bool prefix = false;                   ///< assistant, last message: the reply continues this text

  // Known to the encoders of the checkpoints, not to the HTTP APIs.
  std::vector<ChatTool> tools;     ///< system, developer: tools that this message introduces
  std::optional<ChatJson> schema;  ///< system, developer: the schema of answers
  std::string task;                ///< user: one of V4's classification tasks, e.g. "title"
};

struct ChatToolChoice {
  enum class Kind : std::uint8_t { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  ///< of kNamed
};

/// How hard to think: a name (minimal, low, medium, high, xhigh, ultra, max, or none) or, in V4.1, 1..100.
struct ChatEffort {
  std::string name;
  int number = 0;  ///< used where the name is empty
};

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::vector<ChatTool> tools;
  ChatToolChoice tool_choice;
  ChatResponseFormat response_format;
  std::optional<bool> thinking;      ///< absent: off for effort "none", else what the format does by itself
  std::optional<ChatEffort> effort;  ///< absent: the format's default
  /// False renders the conversation only, as the checkpoints' encoders do: no header for a reply after a last
  /// assistant message, whose reasoning is kept.
  bool reply_wanted = true;
};

struct ChatSegment {
  std::string text;
  bool is_control = false;
};

struct ChatPrompt {
  std::vector<ChatSegment> segments;  ///< no two plain ones in a row, none empty
  std::vector<std::string> images;    ///< URLs in the order of their places in the prompt
  ReplyStart reply_start = ReplyStart::kContent;
  bool calls_allowed = false;  ///< the reply may call tools

  std::string text() const;
  /// Byte ranges of text() that are control tokens.
  std::vector<std::pair<std::size_t, std::size_t>> control_ranges() const;
};

/// One generation's encoding. Immutable, one object per format for the life of the program.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual std::string_view name() const = 0;
  /// The prompt of a request. Throws Error(kUsage) in one sentence where the format cannot express the
  /// request. The rules that hold for every format are check_chat_request's, which callers with outside
  /// requests call first.
  virtual ChatPrompt render(const ChatRequest& request) const = 0;
  /// How a reply is to be read.
  virtual const ReplySyntax& reply_syntax() const = 0;
};

/// The formats by name: deepseek-v4.1, deepseek-v4, deepseek-v4-preview, deepseek-v3.2, deepseek-v3,
/// deepseek-v2, chatml. Throws Error(kUsage) that lists them.
const ChatFormat& chat_format(std::string_view name);
std::vector<std::string_view> chat_format_names();

/// The format of a checkpoint by its config's model_type and the tokens its tokenizer has; null where none
/// fits (a base model of no chat family).
const ChatFormat* chat_format_of(std::string_view model_type, const Tokenizer& tokenizer);

/// Ids of a prompt. Throws Error(kUnsupported) where the tokenizer lacks a control token of the prompt.
std::vector<TokenId> encode_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer);

/// What must hold of a request in every format: messages in a possible order, calls and results that match,
/// tools with usable names and schemas. Throws Error(kUsage) in one sentence that names the place.
void check_chat_request(const ChatRequest& request);

}  // namespace seekline
