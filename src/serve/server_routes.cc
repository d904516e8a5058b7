// What stands at which path.
#include <fmt/format.h>

#include "cache/page_pool.h"
#include "model/network.h"
#include "serve/json_field.h"
#include "serve/page.h"
#include "serve/server.h"
#include "text/chat_json.h"

namespace seekline::serve {
namespace {

constexpr const char* kJson = "application/json";

void set_json(httplib::Response& response, const ChatJson& json) {
  response.set_content(to_text(json), kJson);
}

// The pattern of a path that holds no special characters but dots.
std::string pattern_of(const std::string& path) {
  std::string pattern;
  for (const char c : path) pattern += c == '.' ? std::string("\\.") : std::string(1, c);
  return pattern;
}

}  // namespace

void Server::get(const std::string& path, Action action) {
  known_.emplace_back(path, "GET");
  http_.Get(pattern_of(path), [this, action](const Request& q, Response& r) { handle(q, r, action); });
}

void Server::post(const std::string& path, Action action, bool reports_itself) {
  known_.emplace_back(path, "POST");
  http_.Post(pattern_of(path), [this, action, reports_itself](const Request& q, Response& r) {
    handle(q, r, action, reports_itself);
  });
}

void Server::generates(const std::string& path, Start start) {
  const auto action = [this, path, start](const Request& request, Response& response, const std::string& id) {
    Exchange::Parts parts;
    parts.arrived = Exchange::Clock::now();
    parts.presence = presence_;
    parts.request_id = id;
    parts.path = path;
    parts.style = path.rfind("/v1/messages", 0) == 0 ? ApiStyle::kAnthropic : ApiStyle::kOpenAi;
    parts.call = start(parse_body(request.body), id);
    parts.generation = service_.start(parts.call.spec);
    begin(request, response, std::move(parts));
  };
  post(path, action, true);
}

void Server::add_routes() {
  add_api_routes();
  add_model_routes();
  add_token_routes();
  add_operation_routes();
}

void Server::add_api_routes() {
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    generates(path,
              [this](const ChatJson& body, const std::string&) { return openai_chat_call(service_, body); });
  generates("/v1/completions", [this](const ChatJson& body, const std::string&) {
    return openai_completions_call(service_, body);
  });
  generates("/v1/responses", [this](const ChatJson& body, const std::string&) {
    return openai_responses_call(service_, body);
  });
  generates("/v1/messages", [this](const ChatJson& body, const std::string& id) {
    return anthropic_messages_call(service_, body, id);
  });
  post("/v1/messages/count_tokens", [this](const Request& request, Response& response, const std::string&) {
    set_json(response, anthropic_count_tokens(service_, parse_body(request.body)));
  });
  post("/v1/embeddings", [](const Request&, Response&, const std::string&) {
    throw ApiError(400, "this server generates text; it has no embeddings", "unsupported");
  });
}

void Server::add_model_routes() {
  const auto model_json = [this](const Request& request) -> ChatJson {
    const std::string& name = service_.model_name();
    if (request.has_header("anthropic-version"))
      return {
          {"type", "model"}, {"id", name}, {"display_name", name}, {"created_at", "1970-01-01T00:00:00Z"}};
    return {{"id", name},
            {"object", "model"},
            {"created", service_.created()},
            {"owned_by", "seekline"},
            {"max_model_len", service_.model().context()}};
  };
  get("/v1/models", [this, model_json](const Request& request, Response& response, const std::string&) {
    ChatJson json{{"object", "list"}, {"data", ChatJson::array({model_json(request)})}};
    if (request.has_header("anthropic-version")) {
      json["has_more"] = false;
      json["first_id"] = json["last_id"] = service_.model_name();
    }
    set_json(response, json);
  });
  http_.Get("/v1/models/(.+)", [this, model_json](const Request& q, Response& r) {
    handle(q, r, [this, model_json](const Request& request, Response& response, const std::string&) {
      if (request.matches[1] != service_.model_name())
        throw ApiError(404, fmt::format("this server has the model {} only", service_.model_name()),
                       "model_not_found", "model");
      set_json(response, model_json(request));
    });
  });
}

void Server::add_token_routes() {
  // {"text"} or the fields of a chat -> {"tokens", "count", "max_model_len"}
  post("/tokenize", [this](const Request& request, Response& response, const std::string&) {
    const ChatJson json = parse_body(request.body);
    const Field body(&json, "");
    std::vector<TokenId> tokens;
    if (body["messages"].present()) {
      GenerationSpec spec;
      service_.set_chat(spec, chat_request_from_json(json));
      tokens = spec.prompts[0];
    } else {
      const Field text = body["text"].present() ? body["text"] : body["prompt"];
      if (!text.present()) body["text"].refuse("is missing; give text, or messages");
      tokens = service_.tokenizer().encode(text.text(), body["allow_added"].flag(false));
    }
    set_json(response,
             {{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", service_.model().context()}});
  });
  post("/detokenize", [this](const Request& request, Response& response, const std::string&) {
    const ChatJson json = parse_body(request.body);
    const Field list = Field(&json, "")["tokens"].array();
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < list.size(); ++i)
      ids.push_back(static_cast<TokenId>(list.at(i).integer(0, service_.tokenizer().size() - 1)));
    set_json(response, {{"text", service_.tokenizer().decode_text(ids)}});
  });
}

void Server::add_operation_routes() {
  get("/health", [](const Request&, Response& response, const std::string&) {
    set_json(response, {{"status", "ok"}});
  });
  get("/ready", [this](const Request&, Response& response, const std::string&) {
    if (draining_) throw ApiError(503, "the server is shutting down", "shutting_down", {}, 5);
    set_json(response, {{"status", "ready"}});
  });
  get("/metrics", [this](const Request&, Response& response, const std::string&) {
    response.set_content(
        metrics_.text(service_.scheduler().stats(), http_.connections(), http_.refused_connections()),
        "text/plain; version=0.0.4; charset=utf-8");
  });
  get("/stats",
      [this](const Request&, Response& response, const std::string&) { set_json(response, stats_json()); });
  get("/", [this](const Request&, Response& response, const std::string&) {
    const std::string_view page = chat_page();
    if (!page.empty()) return response.set_content(page.data(), page.size(), "text/html; charset=utf-8");
    response.set_content(
        fmt::format("Seekline serves {}. See docs/api.md for what stands where.\n", service_.model_name()),
        "text/plain; charset=utf-8");
  });
}

ChatJson Server::stats_json() {
  const Model& model = service_.model();
  const SchedulerStats s = service_.scheduler().stats();
  ChatJson stores = ChatJson::array(), parts = ChatJson::array();
  for (const Store& store : model.plan().stores)
    stores.push_back({{"store", store.name},
                      {"row", store.row.name()},
                      {"row_bytes", store.row.bytes()},
                      {"tokens_per_row", store.tokens_per_row},
                      {"ring_rows", store.ring_rows}});
  std::int64_t weight_bytes = 0;
  for (const WeightPart& part : model.network().parts()) {
    parts.push_back({{"part", part.name}, {"bytes", part.bytes}, {"bytes_per_token", part.bytes_per_token}});
    weight_bytes += part.bytes_per_token;
  }
  return {{"model", service_.model_name()},
          {"family", model.network().family()},
          {"geometry", model.network().geometry()},
          {"context", model.context()},
          {"stored_bytes_per_token", model.plan().stored_bytes_per_token()},
          {"window_bytes", model.plan().window_bytes()},
          {"weight_bytes_per_token", weight_bytes},
          {"machine", {{"read_gb_s", options_.read_gb_s}}},
          {"parts", std::move(parts)},
          {"stores", std::move(stores)},
          {"running", s.running},
          {"waiting", s.waiting},
          {"kept_caches", s.kept_timelines},
          {"kept_bytes", s.kept_bytes},
          {"page_bytes", s.page_bytes},
          {"prompt_tokens", s.prompt_tokens},
          {"reused_tokens", s.reused_tokens},
          {"computed_tokens", s.computed_tokens},
          {"generated_tokens", s.generated_tokens},
          {"busy_seconds", s.busy_seconds},
          {"steps", s.steps},
          {"preempted", s.preempted},
          {"connections", http_.connections()}};
}

}  // namespace seekline::serve
