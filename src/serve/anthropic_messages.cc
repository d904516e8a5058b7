// Anthropic's /v1/messages.
#include <fmt/format.h>

#include "serve/anthropic_request.h"
#include "serve/api.h"
#include "serve/openai_fields.h"

namespace seekline::serve {
namespace {

using Kind = GenerationEvent::Kind;

// The API wants one; we sign nothing and check nothing.
constexpr const char* kSignature = "unsigned";

ChatJson usage_of(const TokenCounts& counts) {
  return {{"input_tokens", counts.prompt - counts.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", counts.cached},
          {"output_tokens", counts.completion}};
}

const char* stop_reason(Finish finish) {
  switch (finish) {
    case Finish::kLength:
      return "max_tokens";
    case Finish::kCalls:
      return "tool_use";
    case Finish::kStopString:
      return "stop_sequence";
    case Finish::kStop:
    case Finish::kFailed:
      return "end_turn";
  }
  return "end_turn";
}

ChatJson text_or_null(const std::string& text) { return text.empty() ? ChatJson(nullptr) : ChatJson(text); }

class MessageRenderer final : public Renderer {
 public:
  MessageRenderer(const Service& service, const GenerationSpec& spec, std::string request_id)
      : service_(service), spec_(spec), request_id_(std::move(request_id)) {}

  void render(const GenerationEvent& event, const Outcomes& outcomes, std::string& out) override {
    switch (event.kind) {
      case Kind::kStart:
        return start(outcomes, out);
      case Kind::kReasoning:
        open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
        return delta({{"type", "thinking_delta"}, {"thinking", event.text}}, out);
      case Kind::kContent:
        open(Block::kText, {{"type", "text"}, {"text", ""}}, out);
        return delta({{"type", "text_delta"}, {"text", event.text}}, out);
      case Kind::kCallBegin:
        close(out);
        return open(Block::kCall,
                    {{"type", "tool_use"},
                     {"id", random_id("toolu_")},
                     {"name", event.text},
                     {"input", ChatJson::object()}},
                    out);
      case Kind::kCallArguments:
        return delta({{"type", "input_json_delta"}, {"partial_json", event.text}}, out);
      case Kind::kCallEnd:
      case Kind::kCallsRejected:
        return close(out);
      case Kind::kProgress:
      case Kind::kCache:
      case Kind::kEnd:
        return;
    }
  }

  void finish(const Outcomes& outcomes, std::string& out) override {
    const ChoiceOutcome& outcome = outcomes[0];
    close(out);
    if (blocks_ == 0) {  // clients expect one
      open(Block::kText, {{"type", "text"}, {"text", ""}}, out);
      close(out);
    }
    append_sse(out,
               {{"type", "message_delta"},
                {"delta",
                 {{"stop_reason", stop_reason(outcome.finish)},
                  {"stop_sequence", text_or_null(outcome.stop_string)}}},
                {"usage", usage_of(count_tokens(spec_, outcomes))},
                {"seekline", engine_report(service_, outcomes)}},
               "message_delta");
    append_sse(out, {{"type", "message_stop"}}, "message_stop");
  }

  void fail(const ApiError& error, std::string& out) override {
    append_sse(out, anthropic_error(error, request_id_), "error");
  }

  ChatJson body(const Outcomes& outcomes) override {
    const ChoiceOutcome& outcome = outcomes[0];
    ChatJson content = ChatJson::array();
    if (!outcome.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", outcome.reasoning}, {"signature", kSignature}});
    if (!outcome.content.empty() || outcome.calls.empty())
      content.push_back({{"type", "text"}, {"text", outcome.content}});
    for (const CallOutcome& call : outcome.calls)
      content.push_back({{"type", "tool_use"},
                         {"id", random_id("toolu_")},
                         {"name", call.name},
                         {"input", ChatJson::parse(call.arguments)}});
    ChatJson json = message(std::move(content));
    json["stop_reason"] = stop_reason(outcome.finish);
    json["stop_sequence"] = text_or_null(outcome.stop_string);
    json["usage"] = usage_of(count_tokens(spec_, outcomes));
    json["seekline"] = engine_report(service_, outcomes);
    return json;
  }

 private:
  enum class Block : std::uint8_t { kNone, kThinking, kText, kCall };

  ChatJson message(ChatJson content) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", service_.model_name()},
            {"content", std::move(content)},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  void start(const Outcomes& outcomes, std::string& out) const {
    ChatJson json = message(ChatJson::array());
    json["usage"] = usage_of(count_tokens(spec_, outcomes));
    append_sse(out, {{"type", "message_start"}, {"message", std::move(json)}}, "message_start");
  }

  // Nothing where a block of this kind is open already.
  void open(Block kind, ChatJson block, std::string& out) {
    if (open_ == kind) return;
    close(out);
    open_ = kind;
    append_sse(out,
               {{"type", "content_block_start"}, {"index", blocks_++}, {"content_block", std::move(block)}},
               "content_block_start");
  }

  void delta(ChatJson json, std::string& out) const {
    append_sse(out, {{"type", "content_block_delta"}, {"index", blocks_ - 1}, {"delta", std::move(json)}},
               "content_block_delta");
  }

  void close(std::string& out) {
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThinking) delta({{"type", "signature_delta"}, {"signature", kSignature}}, out);
    append_sse(out, {{"type", "content_block_stop"}, {"index", blocks_ - 1}}, "content_block_stop");
    open_ = Block::kNone;
  }

  const Service& service_;
  const GenerationSpec spec_;
  const std::string request_id_, id_ = random_id("msg_");
  Block open_ = Block::kNone;
  int blocks_ = 0;
};

void read_budget(const Field& body, GenerationSpec& spec) {
  const Field thinking = body["thinking"];
  if (!thinking.present() || thinking["type"].text() != "enabled") return;
  const Field budget = thinking["budget_tokens"];
  const std::int64_t tokens = budget.integer(1, 1LL << 40);
  if (tokens >= spec.max_tokens)
    budget.refuse(fmt::format("is {}; it must be less than max_tokens, {}", tokens, spec.max_tokens));
  spec.reasoning_limit = tokens;
}

// Anthropic's clients know this sentence and shorten their history on it.
void check_length(const Service& service, const GenerationSpec& spec) {
  const auto tokens = static_cast<std::int64_t>(spec.prompts[0].size());
  if (tokens >= service.model().context())
    throw ApiError(
        400, fmt::format("prompt is too long: {} tokens > {} maximum", tokens, service.model().context() - 1),
        "context_length_exceeded", "messages");
}

}  // namespace

ApiCall anthropic_messages_call(const Service& service, const ChatJson& json, const std::string& request_id) {
  const Field body(&json, "");
  ApiCall call;
  GenerationSpec& spec = call.spec;
  call.streams = body["stream"].flag(false);
  spec.max_tokens = body["max_tokens"].integer(1, 1LL << 40);
  SamplingOptions& sampling = spec.sampling;
  sampling.temperature = static_cast<float>(body["temperature"].number_or(1, 0, 2));
  sampling.top_p = static_cast<float>(body["top_p"].number_or(1, 1e-6, 1));
  sampling.top_k = static_cast<int>(body["top_k"].integer_or(0, 0, 1 << 24));
  sampling.seed = random_seed();
  if (const Field seed = body["seed"]; seed.present())  // ours
    sampling.seed = static_cast<std::uint64_t>(seed.integer(-(1LL << 53), 1LL << 53));
  spec.stop = read_stop(body["stop_sequences"]);
  read_budget(body, spec);
  if (const Field choice = body["tool_choice"]; choice.present())
    spec.parallel_calls = !choice.object()["disable_parallel_tool_use"].flag(false);
  service.set_chat(spec, anthropic_chat(body));
  check_length(service, spec);
  call.renderer = std::make_unique<MessageRenderer>(service, spec, request_id);
  return call;
}

ChatJson anthropic_count_tokens(const Service& service, const ChatJson& json) {
  GenerationSpec spec;
  service.set_chat(spec, anthropic_chat(Field(&json, "")));
  return {{"input_tokens", spec.prompts[0].size()}};
}

}  // namespace seekline::serve
