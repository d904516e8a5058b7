// OpenAI's /v1/responses, without its storage: every request brings its whole conversation.
#include <ctime>

#include "serve/api.h"
#include "serve/openai_fields.h"
#include "serve/responses_request.h"

namespace seekline::serve {
namespace {

using Kind = GenerationEvent::Kind;

ChatJson usage_of(const TokenCounts& counts) {
  return {{"input_tokens", counts.prompt},
          {"input_tokens_details", {{"cached_tokens", counts.cached}}},
          {"output_tokens", counts.completion},
          {"output_tokens_details", {{"reasoning_tokens", counts.reasoning}}},
          {"total_tokens", counts.prompt + counts.completion}};
}

ChatJson value_or(const ChatJson& request, const char* key, ChatJson otherwise) {
  const auto found = request.find(key);
  return found == request.end() || found->is_null() ? otherwise : *found;
}

class ResponseRenderer final : public Renderer {
 public:
  ResponseRenderer(const Service& service, const GenerationSpec& spec, const ChatJson& request)
      : service_(service), spec_(spec), request_(request) {}

  void render(const GenerationEvent& event, const Outcomes& outcomes, std::string& out) override {
    switch (event.kind) {
      case Kind::kStart:
        send("response.created", {{"response", response("in_progress", nullptr)}}, out);
        return send("response.in_progress", {{"response", response("in_progress", nullptr)}}, out);
      case Kind::kReasoning:
        if (open_ != Item::kReasoning) open(Item::kReasoning, reasoning_item("", "in_progress"), out);
        text_ += event.text;
        return part_event("response.reasoning_text.delta", {{"delta", event.text}}, out);
      case Kind::kContent:
        if (open_ != Item::kMessage) {
          open(Item::kMessage, message_item(nullptr, "in_progress"), out);
          part_event("response.content_part.added", {{"part", text_part("", {})}}, out);
        }
        text_ += event.text;
        records_.insert(records_.end(), event.records.begin(), event.records.end());
        return part_event(
            "response.output_text.delta",
            {{"delta", event.text}, {"logprobs", records_json(service_.tokenizer(), event.records)}}, out);
      case Kind::kCallBegin:
        close(true, out);
        name_ = event.text;
        call_id_ = random_id("call_");
        return open(Item::kCall, call_item("", "in_progress"), out);
      case Kind::kCallArguments:
        text_ += event.text;
        return item_event("response.function_call_arguments.delta", {{"delta", event.text}}, out);
      case Kind::kCallEnd:
        return close(true, out);
      case Kind::kCallsRejected:
        return close(false, out);
      case Kind::kEnd:
        return close(outcomes[0].finish != Finish::kLength, out);
      case Kind::kProgress:
      case Kind::kCache:
        return;
    }
  }

  void finish(const Outcomes& outcomes, std::string& out) override {
    if (output_.empty()) {
      open(Item::kMessage, message_item(nullptr, "in_progress"), out);
      close(outcomes[0].finish != Finish::kLength, out);
    }
    ChatJson json = ended_response(outcomes);
    const std::string type = "response." + json["status"].get<std::string>();
    send(type.c_str(), {{"response", std::move(json)}}, out);
  }

  void fail(const ApiError& error, std::string& out) override {
    ChatJson json = response("failed", nullptr);
    json["error"] = {{"code", "server_error"}, {"message", error.what()}};
    send("response.failed", {{"response", std::move(json)}}, out);
  }

  // The same items that a stream would have built.
  ChatJson body(const Outcomes& outcomes) override {
    std::string unused;
    const ChoiceOutcome& outcome = outcomes[0];
    const auto one = [&](Kind kind, int call, const std::string& text) {
      GenerationEvent event{kind, 0, call, text, {}};
      if (kind == Kind::kContent) event.records = outcome.records;
      render(event, outcomes, unused);
    };
    if (!outcome.reasoning.empty()) one(Kind::kReasoning, -1, outcome.reasoning);
    if (!outcome.content.empty()) one(Kind::kContent, -1, outcome.content);
    for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
      one(Kind::kCallBegin, static_cast<int>(i), outcome.calls[i].name);
      one(Kind::kCallArguments, static_cast<int>(i), outcome.calls[i].arguments);
      one(Kind::kCallEnd, static_cast<int>(i), "");
    }
    one(Kind::kEnd, -1, "");
    return ended_response(outcomes);
  }

 private:
  enum class Item : std::uint8_t { kNone, kReasoning, kMessage, kCall };

  ChatJson response(const char* status, ChatJson usage) const {
    return {{"id", id_},
            {"object", "response"},
            {"created_at", created_},
            {"status", status},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"instructions", value_or(request_, "instructions", nullptr)},
            {"max_output_tokens", value_or(request_, "max_output_tokens", nullptr)},
            {"model", service_.model_name()},
            {"output", ChatJson::array()},
            {"parallel_tool_calls", spec_.parallel_calls},
            {"previous_response_id", nullptr},
            {"reasoning", value_or(request_, "reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
            {"store", false},
            {"temperature", spec_.sampling.temperature},
            {"text", value_or(request_, "text", {{"format", {{"type", "text"}}}})},
            {"tool_choice", value_or(request_, "tool_choice", "auto")},
            {"tools", value_or(request_, "tools", ChatJson::array())},
            {"top_p", spec_.sampling.top_p},
            {"truncation", "disabled"},
            {"usage", std::move(usage)},
            {"metadata", value_or(request_, "metadata", ChatJson::object())}};
  }

  ChatJson ended_response(const Outcomes& outcomes) const {
    const bool cut = outcomes[0].finish == Finish::kLength;
    ChatJson json = response(cut ? "incomplete" : "completed", usage_of(count_tokens(spec_, outcomes)));
    if (cut) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    json["output"] = output_;
    json["seekline"] = engine_report(service_, outcomes);
    return json;
  }

  void send(const char* type, ChatJson fields, std::string& out) {
    ChatJson event{{"type", type}, {"sequence_number", sequence_++}};
    for (auto& [key, value] : fields.items()) event[key] = std::move(value);
    append_sse(out, event, type);
  }

  void item_event(const char* type, ChatJson fields, std::string& out) {
    ChatJson event{{"item_id", item_id_}, {"output_index", output_.size()}};
    for (auto& [key, value] : fields.items()) event[key] = std::move(value);
    send(type, std::move(event), out);
  }

  void part_event(const char* type, ChatJson fields, std::string& out) {
    fields["content_index"] = 0;
    item_event(type, std::move(fields), out);
  }

  ChatJson text_part(const std::string& text, const std::vector<TokenRecord>& records) const {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", ChatJson::array()},
            {"logprobs", records_json(service_.tokenizer(), records)}};
  }

  ChatJson reasoning_item(const std::string& text, const char* status) const {
    ChatJson content = ChatJson::array();
    if (!text.empty()) content.push_back({{"type", "reasoning_text"}, {"text", text}});
    return {{"id", item_id_},
            {"type", "reasoning"},
            {"summary", ChatJson::array()},
            {"content", content},
            {"status", status}};
  }

  ChatJson message_item(ChatJson part, const char* status) const {
    ChatJson content = ChatJson::array();
    if (!part.is_null()) content.push_back(std::move(part));
    return {{"id", item_id_},
            {"type", "message"},
            {"role", "assistant"},
            {"status", status},
            {"content", content}};
  }

  ChatJson call_item(const std::string& arguments, const char* status) const {
    return {{"id", item_id_}, {"type", "function_call"}, {"call_id", call_id_},
            {"name", name_},  {"arguments", arguments},  {"status", status}};
  }

  void open(Item kind, ChatJson item, std::string& out) {
    close(true, out);
    open_ = kind;
    item_id_ = random_id(kind == Item::kReasoning ? "rs_" : kind == Item::kMessage ? "msg_" : "fc_");
    item["id"] = item_id_;
    send("response.output_item.added", {{"output_index", output_.size()}, {"item", std::move(item)}}, out);
  }

  void close(bool complete, std::string& out) {
    const char* status = complete ? "completed" : "incomplete";
    ChatJson item;
    switch (open_) {
      case Item::kNone:
        return;
      case Item::kReasoning:
        part_event("response.reasoning_text.done", {{"text", text_}}, out);
        item = reasoning_item(text_, status);
        break;
      case Item::kMessage: {
        const ChatJson part = text_part(text_, records_);
        part_event("response.output_text.done", {{"text", text_}, {"logprobs", part["logprobs"]}}, out);
        part_event("response.content_part.done", {{"part", part}}, out);
        item = message_item(part, status);
        break;
      }
      case Item::kCall:
        item_event("response.function_call_arguments.done", {{"name", name_}, {"arguments", text_}}, out);
        item = call_item(text_, status);
        break;
    }
    send("response.output_item.done", {{"output_index", output_.size()}, {"item", item}}, out);
    output_.push_back(std::move(item));
    open_ = Item::kNone;
    text_.clear();
    records_.clear();
  }

  const Service& service_;
  const GenerationSpec spec_;
  const ChatJson request_;
  const std::string id_ = random_id("resp_");
  const std::int64_t created_ = static_cast<std::int64_t>(std::time(nullptr));
  ChatJson output_ = ChatJson::array();
  Item open_ = Item::kNone;
  std::string item_id_, text_, name_, call_id_;
  std::vector<TokenRecord> records_;
  int sequence_ = 0;
};

}  // namespace

ApiCall openai_responses_call(const Service& service, const ChatJson& json) {
  const Field body(&json, "");
  body.refuse_members({"previous_response_id", "conversation", "background", "prompt", "max_tool_calls"});
  if (const Field truncation = body["truncation"]; truncation.present() && truncation.text() != "disabled")
    truncation.refuse("must be disabled: this server never drops messages");
  ApiCall call;
  GenerationSpec& spec = call.spec;
  call.streams = body["stream"].flag(false);
  read_sampling(body, spec.sampling);
  spec.max_tokens = body["max_output_tokens"].integer_or(0, 1, 1LL << 40);
  const std::int64_t top = body["top_logprobs"].integer_or(-1, 0, 20);
  spec.top_logprobs = static_cast<int>(top);
  if (const Field limit = body["max_reasoning_tokens"]; limit.present())
    spec.reasoning_limit = limit.integer(0, 1LL << 40);
  spec.parallel_calls = body["parallel_tool_calls"].flag(true);
  service.set_chat(spec, responses_chat(body));
  call.renderer = std::make_unique<ResponseRenderer>(service, spec, json);
  return call;
}

}  // namespace seekline::serve
