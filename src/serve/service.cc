#include "serve/service.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "cache/page_pool.h"
#include "model/network.h"
#include "serve/api_error.h"

namespace seekline::serve {
namespace {

constexpr int kMaxChoices = 16;
constexpr std::size_t kMaxPrompts = 128;

const ChatFormat* format_of(const Model& model, const std::string& name) {
  if (!name.empty()) return &chat_format(name);
  return chat_format_of(model.network().family(), model.required_tokenizer());
}

AnswerContext context_of(const Model& model, const ChatFormat* format) {
  AnswerContext context;
  context.tokenizer = &model.required_tokenizer();
  context.syntax = format ? &format->reply_syntax() : nullptr;
  context.end_tokens = model.end_tokens();
  context.think_end = context.tokenizer->added_token("</think>");
  context.vocab_size = model.vocab_size();
  try {
    context.vocabulary = TokenVocabulary::of(*context.tokenizer, context.end_tokens);
  } catch (const Error&) {
    context.vocabulary = nullptr;  // this vocabulary cannot spell JSON; requests for it say so
  }
  return context;
}

// A demanded call as a grammar, where calls are JSON and the tools' schemas can be kept; else the model is on
// its own.
std::optional<Grammar> call_grammar(const ChatRequest& request) {
  ChatJson calls = ChatJson::array();
  for (const ChatTool& tool : request.tools) {
    if (request.tool_choice.kind == ChatToolChoice::Kind::kNamed && tool.name != request.tool_choice.name)
      continue;
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", tool.name}}}, {"arguments", tool.parameters}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  try {
    return Grammar::from_json_schema(calls.size() == 1 ? calls[0] : ChatJson{{"anyOf", calls}});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Service::Service(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes,
                 const ServiceOptions& options)
    : model_(std::move(model)),
      options_(options),
      format_(format_of(*model_, options.chat_format)),
      context_(context_of(*model_, format_)),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      scheduler_(model_, std::move(prefixes), options.scheduler) {}

void Service::set_chat(GenerationSpec& spec, const ChatRequest& request) const {
  if (!format_) throw ApiError(400, "this model has no chat format; use /v1/completions", "unsupported");
  const ChatPrompt prompt = format_->render(request);
  if (!prompt.images.empty())
    throw ApiError(400, "this server does not read images", "unsupported", "messages");
  spec.prompts = {encode_prompt(prompt, tokenizer())};
  spec.chat = true;
  spec.reply_start = prompt.reply_start;
  spec.calls_allowed = prompt.calls_allowed;
  set_grammar(spec, request.response_format);
  if (spec.reply_start != ReplyStart::kCalls || context_.syntax->kind != ReplySyntax::Kind::kCallJson ||
      spec.grammar || !context_.vocabulary)
    return;
  spec.grammar = call_grammar(request);
  spec.closing = tokenizer().encode("\n</tool_call>", /*allow_added=*/true);
}

void Service::set_grammar(GenerationSpec& spec, const ChatResponseFormat& format) const {
  if (format.kind == ChatResponseFormat::Kind::kText) return;
  if (!context_.vocabulary)
    throw ApiError(400, "this model's vocabulary cannot spell JSON, so response_format must be text",
                   "unsupported", "response_format");
  if (spec.calls_allowed)
    throw ApiError(
        400,
        "response_format other than text and tools that may be called exclude each other; set tool_choice to "
        "none or leave one of them out",
        "unsupported", "response_format");
  if (spec.reply_start == ReplyStart::kContentContinued)
    throw ApiError(400, "response_format other than text cannot continue a prefix message", "unsupported",
                   "response_format");
  spec.grammar = format.kind == ChatResponseFormat::Kind::kJsonObject
                     ? Grammar::json_object()
                     : Grammar::from_json_schema(format.schema);
}

std::vector<TokenId> Service::encode_text(const std::string& text) const {
  std::vector<TokenId> ids(tokenizer().begin().begin(), tokenizer().begin().end());
  const std::int64_t bos = model_->network().bos_token_id();
  if (ids.empty() && bos >= 0 && model_->network().family() != "llama")
    ids.push_back(static_cast<TokenId>(bos));
  const std::vector<TokenId> more = tokenizer().encode(text, false);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// Tokens that context and cache limit leave for an answer.
std::int64_t Service::room_after(std::int64_t prompt_tokens) const {
  std::int64_t tokens = model_->context();
  const PagePool& pool = const_cast<Model&>(*model_).pages();
  const std::int64_t page = page_bytes_at(pool, 1);
  if (pool.limit_bytes() != 0 && page != 0)
    tokens = std::min(tokens, pool.limit_bytes() / page * kPageTokens);
  return tokens - prompt_tokens;
}

void Service::check_lengths(const GenerationSpec& spec) const {
  for (const auto& prompt : spec.prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.size());
    if (tokens == 0)
      throw ApiError(400, "the prompt is empty, and there is nothing to continue", "invalid_value", "prompt");
    if (tokens >= model_->context())
      throw ApiError(
          400,
          fmt::format("This model's maximum context length is {} tokens. However, your messages resulted in "
                      "{} tokens. Please reduce the length of the messages.",
                      model_->context(), tokens),
          "context_length_exceeded", spec.chat ? "messages" : "prompt");
  }
}

// The tokens that the answer may have. A constrained answer behind reasoning must keep room for itself.
std::int64_t Service::fit_answer(GenerationSpec& spec, std::int64_t prompt_tokens) const {
  const std::int64_t room = std::max<std::int64_t>(1, room_after(prompt_tokens));
  const std::int64_t limit = spec.max_tokens == 0 ? room : std::min(room, spec.max_tokens);
  const bool reasons =
      spec.reply_start == ReplyStart::kReasoning || spec.reply_start == ReplyStart::kReasoningContinued;
  if (spec.reasoning_limit && reasons && !context_.think_end) spec.reasoning_limit.reset();
  if (!spec.grammar) return limit;
  const GrammarState state(*spec.grammar, context_.vocabulary);
  const auto needed = static_cast<std::int64_t>(state.completion_tokens().size()) + (reasons ? 1 : 0) +
                      std::ssize(spec.closing);
  if (limit < needed)
    throw ApiError(
        400,
        fmt::format("the answer may have {} tokens, and the shortest that fits response_format has {}", limit,
                    needed),
        "invalid_value", "max_tokens");
  if (reasons) spec.reasoning_limit = std::min(spec.reasoning_limit.value_or(limit), limit - needed);
  return limit;
}

std::shared_ptr<Generation> Service::start(const GenerationSpec& original) {
  GenerationSpec spec = original;
  if (spec.n < 1 || spec.n > kMaxChoices)
    throw ApiError(400, fmt::format("n is {}; it must be from 1 to {}", spec.n, kMaxChoices), "invalid_value",
                   "n");
  if (spec.prompts.empty() || spec.prompts.size() > kMaxPrompts)
    throw ApiError(400, fmt::format("a request takes from 1 to {} prompts", kMaxPrompts), "invalid_value",
                   "prompt");
  check_lengths(spec);
  check_sampling_options(spec.sampling);
  for (const auto& [token, bias] : spec.sampling.logit_bias)
    if (token >= model_->vocab_size())
      throw ApiError(400,
                     fmt::format("logit_bias has the key {}, and the vocabulary has {} tokens", token,
                                 model_->vocab_size()),
                     "invalid_value", "logit_bias");
  const auto now = SequenceRequest::Clock::now();
  const auto after = [&](double seconds) {
    return now + std::chrono::duration_cast<SequenceRequest::Clock::duration>(
                     std::chrono::duration<double>(seconds));
  };
  const auto choices = spec.prompts.size() * static_cast<std::size_t>(spec.n);
  auto generation = std::make_shared<Generation>(static_cast<int>(choices));
  std::vector<SequenceRequest> requests;
  std::vector<std::shared_ptr<SequenceClient>> clients;
  for (std::size_t i = 0; i < choices; ++i) {
    SequenceRequest request;
    request.prompt = spec.prompts[i / static_cast<std::size_t>(spec.n)];
    request.sampling = spec.sampling;
    request.sampling.seed += i;
    GenerationSpec own = spec;
    request.max_tokens = fit_answer(own, static_cast<std::int64_t>(request.prompt.size()));
    request.top_logprobs = spec.top_logprobs;
    request.start_by = after(options_.queue_seconds);
    request.end_by = after(options_.request_seconds);
    clients.push_back(
        std::make_shared<Answer>(context_, own, static_cast<int>(i), request.max_tokens, generation));
    requests.push_back(std::move(request));
  }
  const std::vector<Scheduler::Id> ids = scheduler_.submit(std::move(requests), std::move(clients));
  generation->on_cancel([this, ids] {
    for (const Scheduler::Id id : ids) scheduler_.cancel(id);
  });
  return generation;
}

}  // namespace seekline::serve
