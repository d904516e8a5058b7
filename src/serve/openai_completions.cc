// OpenAI's /v1/completions: plain text goes on.
#include <ctime>

#include "serve/api.h"
#include "serve/openai_fields.h"

namespace seekline::serve {
namespace {

using Kind = GenerationEvent::Kind;

class CompletionRenderer final : public Renderer {
 public:
  CompletionRenderer(const Service& service, const GenerationSpec& spec, bool include_usage)
      : service_(service), spec_(spec), include_usage_(include_usage) {}

  void render(const GenerationEvent& event, const Outcomes& outcomes, std::string& out) override {
    const ChoiceOutcome& outcome = outcomes[static_cast<std::size_t>(event.choice)];
    if (event.kind == Kind::kContent) {
      ChatJson chunk = head();
      chunk["choices"] = ChatJson::array({choice_json(event.choice, event.text, event.records, nullptr)});
      append_sse(out, chunk);
    } else if (event.kind == Kind::kEnd && outcome.finish != Finish::kFailed) {
      ChatJson chunk = head();
      chunk["choices"] = ChatJson::array({choice_json(event.choice, "", {}, openai_finish(outcome.finish))});
      chunk["seekline"] = engine_report(service_, {outcome});
      append_sse(out, chunk);
    }
  }

  void finish(const Outcomes& outcomes, std::string& out) override {
    if (include_usage_) {
      ChatJson chunk = head();
      chunk["choices"] = ChatJson::array();
      chunk["usage"] = openai_usage(count_tokens(spec_, outcomes));
      append_sse(out, chunk);
    }
    out += "data: [DONE]\n\n";
  }

  void fail(const ApiError& error, std::string& out) override { append_sse(out, openai_error(error)); }

  ChatJson body(const Outcomes& outcomes) override {
    ChatJson json = head();
    json["choices"] = ChatJson::array();
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      json["choices"].push_back(choice_json(static_cast<int>(i), outcomes[i].content, outcomes[i].records,
                                            openai_finish(outcomes[i].finish)));
    json["usage"] = openai_usage(count_tokens(spec_, outcomes));
    json["seekline"] = engine_report(service_, outcomes);
    return json;
  }

 private:
  ChatJson head() const {
    return {
        {"id", id_}, {"object", "text_completion"}, {"created", created_}, {"model", service_.model_name()}};
  }

  ChatJson choice_json(int index, const std::string& text, const std::vector<TokenRecord>& records,
                       const ChatJson& finish) const {
    return {
        {"index", index}, {"text", text}, {"logprobs", logprobs_json(records)}, {"finish_reason", finish}};
  }

  ChatJson logprobs_json(const std::vector<TokenRecord>& records) const {
    if (spec_.top_logprobs < 0) return nullptr;
    ChatJson tokens = ChatJson::array(), logprobs = ChatJson::array(), tops = ChatJson::array();
    const auto text = [&](TokenId id) { return service_.tokenizer().decode_text({&id, 1}); };
    for (const TokenRecord& record : records) {
      tokens.push_back(text(record.choice.token));
      logprobs.push_back(record.choice.logprob);
      ChatJson top = ChatJson::object();
      for (const TokenLogprob& one : record.choice.top)
        if (!top.contains(text(one.token))) top[text(one.token)] = one.logprob;
      tops.push_back(std::move(top));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)}};
  }

  const Service& service_;
  const GenerationSpec spec_;
  const bool include_usage_;
  const std::string id_ = random_id("cmpl-");
  const std::int64_t created_ = static_cast<std::int64_t>(std::time(nullptr));
};

std::vector<TokenId> ids_of(const Field& list, std::int64_t vocab) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < list.size(); ++i)
    ids.push_back(static_cast<TokenId>(list.at(i).integer(0, vocab - 1)));
  return ids;
}

// A text, texts, token ids, or lists of token ids.
std::vector<std::vector<TokenId>> read_prompts(const Service& service, const Field& prompt) {
  if (prompt.is_text()) return {service.encode_text(prompt.text())};
  prompt.array("a string, token ids, or an array of either");
  if (prompt.size() == 0) prompt.refuse("is empty");
  const std::int64_t vocab = service.model().vocab_size();
  if (prompt.at(0).json().is_number()) return {ids_of(prompt, vocab)};
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const Field one = prompt.at(i);
    prompts.push_back(one.is_text() ? service.encode_text(one.text()) : ids_of(one.array(), vocab));
  }
  return prompts;
}

}  // namespace

ApiCall openai_completions_call(const Service& service, const ChatJson& json) {
  const Field body(&json, "");
  body.refuse_members({"suffix", "echo"});
  ApiCall call;
  GenerationSpec& spec = call.spec;
  call.streams = body["stream"].flag(false);
  const bool include_usage = read_include_usage(body);
  read_sampling(body, spec.sampling);
  spec.n = static_cast<int>(body["n"].integer_or(1, 1, 16));
  if (body["best_of"].integer_or(spec.n, 1, 16) != spec.n) body["best_of"].refuse("must equal n");
  spec.stop = read_stop(body["stop"]);
  spec.top_logprobs = static_cast<int>(body["logprobs"].integer_or(-1, 0, 20));
  spec.max_tokens = body["max_tokens"].integer_or(16, 1, 1LL << 40);
  spec.prompts = read_prompts(service, body["prompt"]);
  call.renderer = std::make_unique<CompletionRenderer>(service, spec, include_usage);
  return call;
}

}  // namespace seekline::serve
