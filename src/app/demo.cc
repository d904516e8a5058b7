#include "app/demo.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/demo_figures.h"
#include "app/session_talk.h"
#include "checkpoint/config_reader.h"
#include "engine/generate.h"
#include "seekline/session.h"

namespace seekline {
namespace {

struct Question {
  std::string words, answer;
  std::int64_t distance = 0;  // tokens from the fact's last statement to the end of the document
};

struct Demo {
  std::string document;
  std::vector<Question> questions;
};

Demo read_demo(const std::filesystem::path& folder) {
  const std::filesystem::path text = folder / "document.txt", list = folder / "questions.json";
  std::ifstream in(text, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, fmt::format("{} cannot be opened", text.string()));
  Demo demo;
  demo.document.assign(std::istreambuf_iterator<char>(in), {});
  const nlohmann::json json = read_config_file(list.string());
  try {
    for (const nlohmann::json& q : json.at("questions"))
      demo.questions.push_back({q.at("question"), q.at("answer"), q.at("distance")});
  } catch (const nlohmann::json::exception&) {
    demo.questions.clear();
  }
  if (demo.questions.empty())
    throw Error(
        ErrorCode::kBadFile,
        fmt::format("{} does not hold {{\"questions\": [{{\"question\", \"answer\", \"distance\"}}, ..]}}",
                    list.string()));
  return demo;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \n"), last = text.find_last_not_of(" \n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Asked {
  ReuseReport prompt;
  bool right = false;
};

// One question behind the document, as a prompt of its own.
Asked ask(Session& session, const Demo& demo, const Question& question) {
  constexpr std::int64_t kAnswerTokens = 16;
  SessionTalk talk(session.model(), false, {});
  const auto start = std::chrono::steady_clock::now();
  session.prompt(talk.prompt_tokens(session, "", demo.document + "\n\n" + question.words));
  Asked asked{session.reuse()};
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = kAnswerTokens;
  options.end_tokens = session.model()->end_tokens();
  const Generated out = generate(session, options, [](std::string_view) { return true; });
  const std::string said = trimmed(out.text);
  asked.right = said == question.answer;
  fmt::print("  {:<40} {:<12} {:<22} {:>5} tokens back; {:>5} of {} tokens computed, {:.0f} ms\n",
             question.words, said, asked.right ? "right" : fmt::format("wrong, it is {}", question.answer),
             question.distance, asked.prompt.computed_tokens, with_commas(asked.prompt.prompt_tokens),
             milliseconds_since(start));
  return asked;
}

}  // namespace

std::filesystem::path shipped_model_folder() {
  const char* named = std::getenv("SEEKLINE_MODELS");
  const std::filesystem::path folder =
      std::filesystem::path(named ? named : SEEKLINE_TOOLS_DIR "/../models") / "nano-v41";
  if (!std::filesystem::exists(folder / "config.json"))
    throw Error(
        ErrorCode::kNotFound,
        fmt::format(
            "the shipped model is not in {}; give --model, or set SEEKLINE_MODELS to the folder models/ "
            "of the sources",
            folder.lexically_normal().string()));
  return folder.lexically_normal();
}

void run_demo(const std::filesystem::path& folder, const ModelOptions& options, const ReuseOptions& reuse) {
  const bool own = std::filesystem::exists(folder / "demo" / "questions.json");
  const Demo demo = read_demo((own ? folder : shipped_model_folder()) / "demo");
  ModelOptions one = options;
  if (one.threads == 0) one.threads = 1;  // products this small are not worth waiting for a second thread
  const std::shared_ptr<Model> model = Model::open(folder, one);
  Session session = open_session(model, reuse);
  fmt::print("{} reads a document of {} tokens and is asked {} questions, each a prompt of its own:\n\n",
             folder.filename().string(), with_commas(std::ssize(model->encode(demo.document, false))),
             demo.questions.size());
  std::size_t right = 0;
  std::optional<ReuseReport> cold;
  for (const Question& question : demo.questions) {
    const Asked asked = ask(session, demo, question);
    right += asked.right;
    if (!cold) cold = asked.prompt;
  }
  fmt::print("\n{} of {} right\n\n{}", right, demo.questions.size(), demo_figures(session, *cold));
}

}  // namespace seekline
