// The server over HTTP, with the tiny V4.1 model (its answers mean nothing; they are exact all the same).
#include "serve/served.h"

#include <algorithm>

#include "engine/generate.h"
#include "seekline/session.h"

namespace seekline::serve {
namespace {

std::string content_of(const Served::Reply& reply) {
  const ChatJson json = reply.json();
  if (!json.is_object() || !json.contains("choices")) return "no answer: " + reply.body;
  const ChatJson& message = json["choices"][0]["message"];
  return message.value("reasoning_content", "") + "|" + message.value("content", "");
}

TEST(Server, AnAnswerOverHttpIsTheEnginesOwn) {
  Served served;
  const ChatJson reply =
      served
          .post("/v1/completions",
                ChatJson{{"prompt", "Once upon a time"}, {"max_tokens", 20}, {"temperature", 0}})
          .json();
  const std::shared_ptr<Model> model = open_tiny();
  Session session(model);
  session.prompt(served.server().service().encode_text("Once upon a time"));
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 20;
  options.end_tokens = model->end_tokens();
  EXPECT_EQ(reply["choices"][0]["text"], generate(session, options, nullptr).text);
  EXPECT_EQ(reply["usage"]["prompt_tokens"],
            served.server().service().encode_text("Once upon a time").size());
}

TEST(Server, AStreamSaysWhatTheWholeAnswerSays) {
  Served served;
  ChatJson request = say("Tell me about rivers", 30);
  const std::string whole = content_of(served.post("/v1/chat/completions", request));
  request["stream"] = true;
  const Served::Reply reply = served.post("/v1/chat/completions", request);
  EXPECT_EQ(reply.headers.find("Content-Type")->second, "text/event-stream");
  std::string reasoning, content;
  std::size_t at = 0;
  while ((at = reply.body.find("data: {", at)) != std::string::npos) {
    const ChatJson chunk = ChatJson::parse(reply.body.substr(at + 6, reply.body.find("\n\n", at) - at - 6));
    const ChatJson& delta = chunk["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
    at += 6;
  }
  EXPECT_EQ(reasoning + "|" + content, whole);
  EXPECT_NE(reply.body.find("data: [DONE]\n\n"), std::string::npos);
}

TEST(Server, AnswersDoNotDependOnWhoElseIsServed) {
  Served served;
  const auto request = [](int i) {
    ChatJson body = say(
        "Question number " + std::to_string(i) + std::string(static_cast<std::size_t>(7 * i), 'x'), 10 + i);
    body["temperature"] = i % 2;
    body["seed"] = i;
    return body;
  };
  std::vector<std::string> together(12);
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i)
    clients.emplace_back([&, i] {
      together[static_cast<std::size_t>(i)] = content_of(served.post("/v1/chat/completions", request(i)));
    });
  for (std::thread& client : clients) client.join();
  Served fresh;
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(together[static_cast<std::size_t>(i)],
              content_of(fresh.post("/v1/chat/completions", request(i))))
        << i;
}

TEST(Server, ChoicesDifferBySeedAndComeAgainWithIt) {
  Served served;
  ChatJson request{{"prompt", "Numbers:"}, {"max_tokens", 12}, {"n", 3}, {"seed", 5}, {"temperature", 1}};
  const ChatJson first = served.post("/v1/completions", request).json()["choices"];
  const ChatJson second = served.post("/v1/completions", request).json()["choices"];
  ASSERT_EQ(first.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(first[i]["text"], second[i]["text"]);
  EXPECT_NE(first[0]["text"], first[1]["text"]);
}

TEST(Server, AConversationThatGoesOnReportsWhatWasCached) {
  Served served;
  ChatJson request{{"prompt", ChatJson::array()}, {"max_tokens", 8}, {"temperature", 0}};
  for (int i = 0; i < 300; ++i) request["prompt"].push_back(50 + i % 200);
  served.post("/v1/completions", request);
  for (int i = 0; i < 20; ++i) request["prompt"].push_back(300 + i);
  const ChatJson reply = served.post("/v1/completions", request).json();
  EXPECT_GE(reply["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), 299);
  EXPECT_EQ(reply["seekline"]["prompt_tokens"]["from"], "memory");
  EXPECT_GT(reply["seekline"]["cache"]["bytes"].get<int>(), 0);
  Served cold;
  EXPECT_EQ(cold.post("/v1/completions", request).json()["choices"][0]["text"], reply["choices"][0]["text"]);
}

TEST(Server, ConstrainedAnswersAreValidFromAModelThatKnowsNothing) {
  Served served;
  for (int seed = 0; seed < 6; ++seed) {
    ChatJson request = say("Give me json", 60);
    request["thinking"] = {{"type", seed % 2 == 0 ? "enabled" : "disabled"}};
    request["seed"] = seed;
    request["temperature"] = 1;
    request["response_format"] =
        ChatJson::parse(R"({"type": "json_schema", "json_schema": {"name": "a", "schema": {
      "type": "object", "properties": {"ok": {"type": "boolean"}, "names": {"type": "array", "items": {"type": "string"}}},
      "required": ["ok", "names"], "additionalProperties": false}}})");
    const ChatJson message = served.post("/v1/chat/completions", request).json()["choices"][0]["message"];
    const ChatJson value = ChatJson::parse(message["content"].get<std::string>(), nullptr, false);
    ASSERT_TRUE(value.is_object()) << message;
    EXPECT_TRUE(value["ok"].is_boolean() && value["names"].is_array()) << message;
  }
}

TEST(Server, ReasoningEndsAtItsLimitAndAnAnswerFollows) {
  Served served;
  ChatJson request = say("Think", 40);
  request["max_reasoning_tokens"] = 5;
  const ChatJson reply = served.post("/v1/chat/completions", request).json();
  EXPECT_LE(reply["usage"]["completion_tokens_details"]["reasoning_tokens"].get<int>(), 6);
  EXPECT_GT(reply["usage"]["completion_tokens"].get<int>(), 6);
}

TEST(Server, TooLongAPromptIsA400WithBothNumbers) {
  Served served({}, tiny_service_options(), open_tiny(0, 100));
  const ChatJson error =
      served.post("/v1/chat/completions", say(std::string(3000, 'a') + " b")).json()["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  const std::string message = error["message"];
  EXPECT_NE(message.find("maximum context length is 100 tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("resulted in "), std::string::npos) << message;
  ChatJson request = say(std::string(3000, 'a'));
  request.erase("temperature");
  const ChatJson theirs = served.post("/v1/messages", request).json();
  EXPECT_EQ(theirs["error"]["type"], "invalid_request_error");
  EXPECT_NE(theirs["error"]["message"].get<std::string>().find("prompt is too long: "), std::string::npos);
}

TEST(Server, ErrorsComeInTheShapeOfTheApi) {
  ServerOptions options;
  options.api_keys = {"secret"};
  Served served(options);
  const httplib::Headers key{{"Authorization", "Bearer secret"}};
  const httplib::Headers their_key{{"X-Api-Key", "secret"}};
  EXPECT_EQ(served.post("/v1/chat/completions", say("x")).status, 401);
  EXPECT_EQ(served.post("/v1/chat/completions", say("x"), {{"Authorization", "Bearer wrong1"}}).status, 401);
  EXPECT_EQ(served.get("/v1/models").json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(served.post("/v1/messages", say("x")).json()["error"]["type"], "authentication_error");
  EXPECT_EQ(served.post("/v1/messages", say("x"), their_key).status, 200);
  EXPECT_EQ(served.get("/health").status, 200);
  const Served::Reply broken = served.post("/v1/chat/completions", std::string("{\"messages\": ["), key);
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(broken.json()["error"]["type"], "invalid_request_error");
  EXPECT_EQ(served.post("/v1/messages", std::string("[]"), their_key).json()["type"], "error");
  EXPECT_EQ(served.post("/v1/nothing", std::string("{}"), key).status, 404);
  const Served::Reply wrong_method = served.get("/v1/chat/completions", key);
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.headers.find("Allow")->second, "POST");
  EXPECT_EQ(served.post("/v1/embeddings", std::string("{}"), key).status, 400);
  EXPECT_EQ(served.get("/v1/models/tiny", key).json()["id"], "tiny");
  EXPECT_EQ(served.get("/v1/models/huge", key).json()["error"]["code"], "model_not_found");
}

TEST(Server, PagesOfOtherOriginsAreRefusedUnlessNamed) {
  ServerOptions options;
  options.cors_origins = {"https://good.example"};
  Served served(options);
  const auto with = [&](const char* origin) { return served.get("/v1/models", {{"Origin", origin}}); };
  EXPECT_EQ(with("https://evil.example").status, 403);
  const Served::Reply good = with("https://good.example");
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.headers.find("Access-Control-Allow-Origin")->second, "https://good.example");
  const std::string own = "http://127.0.0.1:" + std::to_string(served.port());
  EXPECT_EQ(with(own.c_str()).status, 200);
  auto preflight = served.client().Options(
      "/v1/chat/completions",
      {{"Origin", "https://good.example"}, {"Access-Control-Request-Headers", "x-a"}});
  ASSERT_TRUE(preflight);
  EXPECT_EQ(preflight->status, 204);
  EXPECT_EQ(preflight->get_header_value("Access-Control-Allow-Headers"), "x-a");
  // A foreign name that was made to point here (DNS rebinding) is a foreign origin.
  EXPECT_EQ(served.get("/v1/models", {{"Host", "evil.example"}, {"Origin", "http://evil.example"}}).status,
            403);
}

TEST(Server, WhoGoesAwayStopsCosting) {
  Served served;
  ChatJson request = say("Write for a long time", 4000);
  for (const bool stream : {true, false}) {
    request["stream"] = stream;
    const std::int64_t before = served.stats().cancelled;
    const int socket = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
    ASSERT_TRUE(Served::soon([&] { return served.stats().running == 1; })) << stream;
    close(socket);
    EXPECT_TRUE(Served::soon([&] { return served.stats().cancelled == before + 1; })) << stream;
    EXPECT_TRUE(Served::soon([&] { return served.stats().running == 0; })) << stream;
  }
}

TEST(Server, AFullQueueIsA429WithRetryAfter) {
  ServiceOptions service = tiny_service_options();
  service.scheduler.max_running = 1;
  service.scheduler.max_waiting = 1;
  Served served({}, service);
  ChatJson request = say("Write for a long time", 4000);
  request["stream"] = true;
  const int first = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  ASSERT_TRUE(Served::soon([&] { return served.stats().running == 1; }));
  const int second = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  ASSERT_TRUE(Served::soon([&] { return served.stats().waiting == 1; }));
  const Served::Reply third = served.post("/v1/chat/completions", say("x"));
  EXPECT_EQ(third.status, 429);
  EXPECT_NE(third.headers.find("Retry-After"), third.headers.end());
  close(first);
  close(second);
  EXPECT_TRUE(Served::soon([&] { return served.stats().running + served.stats().waiting == 0; }));
  EXPECT_EQ(served.post("/v1/chat/completions", say("x")).status, 200);
}

TEST(Server, WaitingClientsHearSomething) {
  ServiceOptions service = tiny_service_options();
  service.scheduler.max_running = 1;
  ServerOptions options;
  options.keep_alive = std::chrono::milliseconds(20);
  options.first_byte = std::chrono::milliseconds(30);
  Served served(options, service);
  ChatJson request = say("Write for a long time", 4000);
  request["stream"] = true;
  const int busy = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  ASSERT_TRUE(Served::soon([&] { return served.stats().running == 1; }));
  const int streams = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  EXPECT_NE(Served::read_until(streams, ": keep-alive\n\n").find("200 OK"), std::string::npos);
  const std::string whole = to_text(say("x", 3));
  const int waits =
      served.connect_and_send(http_post("/v1/chat/completions", whole, "Connection: close\r\n"));
  EXPECT_NE(Served::read_until(waits, "\r\n1\r\n\n\r\n1\r\n\n\r\n").find("200 OK"), std::string::npos);
  close(busy);
  close(streams);
  EXPECT_NE(Served::read_until(waits, "}\r\n").find("chat.completion"), std::string::npos);
  close(waits);
}

TEST(Server, TokensMetricsAndStateCanBeAsked) {
  Served served;
  const ChatJson tokens = served.post("/tokenize", ChatJson{{"text", "hello <think>"}}).json();
  EXPECT_EQ(served.post("/detokenize", ChatJson{{"tokens", tokens["tokens"]}}).json()["text"],
            "hello <think>");
  EXPECT_EQ(served.post("/tokenize", say("x")).json()["tokens"][0], 0);
  EXPECT_EQ(served.get("/ready").status, 200);
  EXPECT_EQ(served.post("/v1/messages/count_tokens", say("x")).json()["input_tokens"],
            served.post("/v1/messages", say("x", 1)).json()["usage"]["input_tokens"]);
  const std::string metrics = served.get("/metrics").body;
  for (const char* name : {"seekline_http_requests_total{path=\"/v1/messages\",status=\"200\"} 1",
                           "seekline_generated_tokens_total 1", "seekline_resident_bytes"})
    EXPECT_NE(metrics.find(name), std::string::npos) << name << "\n" << metrics;
  EXPECT_EQ(served.get("/stats").json()["model"], "tiny");
}

TEST(Server, AShutdownLetsAnswersFinishAndThenEndsTheRest) {
  ServerOptions options;
  options.shutdown_grace = std::chrono::milliseconds(20000);
  Served served(options);
  ChatJson request = say("A short answer", 60);
  request["stream"] = true;
  const int socket = served.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  ASSERT_TRUE(Served::soon([&] { return served.stats().running == 1; }));
  served.stop();
  EXPECT_NE(Served::read_until(socket, "[DONE]").find("[DONE]"), std::string::npos);
  close(socket);

  options.shutdown_grace = std::chrono::milliseconds(50);
  Served hasty(options);
  request["max_tokens"] = 4000;
  const int cut = hasty.connect_and_send(http_post("/v1/chat/completions", to_text(request)));
  ASSERT_TRUE(Served::soon([&] { return hasty.stats().running == 1; }));
  hasty.stop();
  EXPECT_NE(Served::read_until(cut, "shutting down").find("shutting down"), std::string::npos);
  close(cut);
}

}  // namespace
}  // namespace seekline::serve
