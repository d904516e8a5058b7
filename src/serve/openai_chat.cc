// OpenAI's /v1/chat/completions, with DeepSeek's reasoning_content and thinking.
#include <ctime>

#include "serve/api.h"
#include "serve/openai_fields.h"
#include "text/chat_json.h"

namespace seekline::serve {
namespace {

using Kind = GenerationEvent::Kind;

class ChatRenderer final : public Renderer {
 public:
  ChatRenderer(const Service& service, const GenerationSpec& spec, bool include_usage)
      : service_(service), spec_(spec), include_usage_(include_usage) {
    for (int i = 0; i < spec.n; ++i) ids_.emplace_back();
  }

  void render(const GenerationEvent& event, const Outcomes& outcomes, std::string& out) override {
    const ChoiceOutcome& outcome = outcomes[static_cast<std::size_t>(event.choice)];
    switch (event.kind) {
      case Kind::kStart: {
        ChatJson chunk = chunk_of(event.choice, {{"role", "assistant"}, {"content", ""}}, nullptr);
        chunk["seekline"] = {{"prompt_tokens", prompt_report(outcome.prefix)}};
        return append_sse(out, chunk);
      }
      case Kind::kCache:
        cache_grew_ = true;
        return;
      case Kind::kReasoning:
        return append(out, event, outcome, {{"reasoning_content", event.text}});
      case Kind::kContent:
        return append(out, event, outcome, {{"content", event.text}});
      case Kind::kCallBegin:
        return append(
            out, event, outcome,
            {{"tool_calls", ChatJson::array({call_json(event.choice, event.call, event.text, "")})}});
      case Kind::kCallArguments:
        return append(
            out, event, outcome,
            {{"tool_calls",
              ChatJson::array({{{"index", event.call}, {"function", {{"arguments", event.text}}}}})}});
      case Kind::kEnd: {
        if (outcome.finish == Finish::kFailed) return;
        ChatJson chunk = chunk_of(event.choice, ChatJson::object(), openai_finish(outcome.finish));
        chunk["seekline"] = engine_report(service_, {outcome});
        return append_sse(out, chunk);
      }
      case Kind::kProgress:
      case Kind::kCallEnd:
      case Kind::kCallsRejected:
        return;
    }
  }

  void finish(const Outcomes& outcomes, std::string& out) override {
    if (include_usage_) {
      ChatJson chunk = head("chat.completion.chunk");
      chunk["choices"] = ChatJson::array();
      chunk["usage"] = openai_usage(count_tokens(spec_, outcomes));
      append_sse(out, chunk);
    }
    out += "data: [DONE]\n\n";
  }

  void fail(const ApiError& error, std::string& out) override { append_sse(out, openai_error(error)); }

  ChatJson body(const Outcomes& outcomes) override {
    ChatJson json = head("chat.completion");
    json["choices"] = ChatJson::array();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const ChoiceOutcome& outcome = outcomes[i];
      ChatJson choice{
          {"index", i}, {"message", message_of(static_cast<int>(i), outcome)}, {"logprobs", nullptr}};
      if (spec_.top_logprobs >= 0)
        choice["logprobs"] = {{"content", records_json(service_.tokenizer(), outcome.records)}};
      choice["finish_reason"] = openai_finish(outcome.finish);
      json["choices"].push_back(std::move(choice));
    }
    json["usage"] = openai_usage(count_tokens(spec_, outcomes));
    json["seekline"] = engine_report(service_, outcomes);
    return json;
  }

 private:
  ChatJson head(const char* object) const {
    return {{"id", id_}, {"object", object}, {"created", created_}, {"model", service_.model_name()}};
  }

  ChatJson chunk_of(int choice, ChatJson delta, const ChatJson& finish) const {
    ChatJson chunk = head("chat.completion.chunk");
    chunk["choices"] = ChatJson::array(
        {{{"index", choice}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", finish}}});
    return chunk;
  }

  void append(std::string& out, const GenerationEvent& event, const ChoiceOutcome& outcome, ChatJson delta) {
    ChatJson chunk = chunk_of(event.choice, std::move(delta), nullptr);
    if (spec_.n == 1 && cache_grew_)
      chunk["seekline"] = {{"cache", cache_report(service_, outcome.summary.store_bytes)}};
    cache_grew_ = false;
    if (event.kind == Kind::kContent && spec_.top_logprobs >= 0)
      chunk["choices"][0]["logprobs"] = {{"content", records_json(service_.tokenizer(), event.records)}};
    append_sse(out, chunk);
  }

  ChatJson call_json(int choice, int call, const std::string& name, const std::string& arguments) {
    auto& ids = ids_[static_cast<std::size_t>(choice)];
    while (ids.size() <= static_cast<std::size_t>(call)) ids.push_back(random_id("call_"));
    return {{"index", call},
            {"id", ids[static_cast<std::size_t>(call)]},
            {"type", "function"},
            {"function", {{"name", name}, {"arguments", arguments}}}};
  }

  ChatJson message_of(int index, const ChoiceOutcome& outcome) {
    ChatJson message{{"role", "assistant"}};
    const bool only_calls = outcome.content.empty() && !outcome.calls.empty();
    message["content"] = only_calls ? ChatJson(nullptr) : ChatJson(outcome.content);
    if (!outcome.reasoning.empty()) message["reasoning_content"] = outcome.reasoning;
    if (!outcome.calls.empty()) {
      message["tool_calls"] = ChatJson::array();
      for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
        ChatJson call =
            call_json(index, static_cast<int>(i), outcome.calls[i].name, outcome.calls[i].arguments);
        call.erase("index");
        message["tool_calls"].push_back(std::move(call));
      }
    }
    message["refusal"] = nullptr;
    return message;
  }

  const Service& service_;
  const GenerationSpec spec_;
  const bool include_usage_;
  const std::string id_ = random_id("chatcmpl-");
  const std::int64_t created_ = static_cast<std::int64_t>(std::time(nullptr));
  std::vector<std::vector<std::string>> ids_;  // of calls, by choice
  bool cache_grew_ = false;                    // since the last chunk
};

// OpenAI's newer clients send the system message as "developer".
ChatJson with_system_roles(ChatJson body) {
  if (const auto messages = body.find("messages"); messages != body.end() && messages->is_array())
    for (ChatJson& message : *messages)
      if (message.is_object() && message.contains("role") && message["role"] == "developer")
        message["role"] = "system";
  return body;
}

int read_logprobs(const Field& body) {
  const std::int64_t top = body["top_logprobs"].integer_or(-1, 0, 20);
  if (!body["logprobs"].flag(false)) {
    if (top > 0) body["top_logprobs"].refuse("needs logprobs to be true");
    return -1;
  }
  return static_cast<int>(std::max<std::int64_t>(top, 0));
}

}  // namespace

ApiCall openai_chat_call(const Service& service, const ChatJson& json) {
  const Field body(&json, "");
  body.refuse_members({"functions", "function_call", "audio", "web_search_options", "prediction"});
  if (const Field modalities = body["modalities"];
      modalities.present() && modalities.json() != ChatJson::array({"text"}))
    modalities.refuse("must be [\"text\"]");
  ApiCall call;
  GenerationSpec& spec = call.spec;
  call.streams = body["stream"].flag(false);
  const bool include_usage = read_include_usage(body);
  read_sampling(body, spec.sampling);
  spec.n = static_cast<int>(body["n"].integer_or(1, 1, 16));
  spec.stop = read_stop(body["stop"]);
  spec.top_logprobs = read_logprobs(body);
  const Field newer = body["max_completion_tokens"], older = body["max_tokens"];
  spec.max_tokens = newer.present() ? newer.integer(1, 1LL << 40) : older.integer_or(0, 1, 1LL << 40);
  if (const Field limit = body["max_reasoning_tokens"]; limit.present())
    spec.reasoning_limit = limit.integer(0, 1LL << 40);
  spec.parallel_calls = body["parallel_tool_calls"].flag(true);
  service.set_chat(spec, chat_request_from_json(with_system_roles(json)));
  call.renderer = std::make_unique<ChatRenderer>(service, spec, include_usage);
  return call;
}

}  // namespace seekline::serve
