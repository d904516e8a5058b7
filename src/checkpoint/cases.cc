#include "checkpoint/cases.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "seekline/error.h"

namespace seekline {
namespace {

constexpr std::size_t kProblems = 20;  // more would help nobody

void read_tokens(const nlohmann::json& tokens, std::int64_t vocab_size, const std::string& name, Case& out,
                 std::vector<std::string>& problems) {
  if (!tokens.is_array() || tokens.empty()) {
    problems.push_back(fmt::format("{}: tokens must be a list of token ids that is not empty", name));
    return;
  }
  for (const nlohmann::json& token : tokens) {
    const bool fits =
        token.is_number_integer() && token.get<std::int64_t>() >= 0 && token.get<std::int64_t>() < vocab_size;
    if (!fits) {
      // A nested value is not printed: printing follows its nesting by recursion, however deep that is.
      const std::string shown =
          token.is_structured()
              ? "a list or an object"
              : token.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 40);
      problems.push_back(fmt::format("{}: token {} is not an id below {}", name, shown, vocab_size));
      return;
    }
    out.tokens.push_back(token.get<std::int32_t>());
  }
}

void read_prompt(const nlohmann::json& entry, const std::string& name, Case& out,
                 std::vector<std::string>& problems) {
  const auto is_length = [](const nlohmann::json& value, std::int64_t least, std::int64_t most) {
    return value.is_number_integer() && value.get<std::int64_t>() >= least &&
           value.get<std::int64_t>() <= most;
  };
  if (!entry.is_object() || !entry.contains("prompt")) return;
  const std::int64_t tokens = std::ssize(out.tokens);
  if (!is_length(entry["prompt"], 1, tokens)) {
    problems.push_back(
        fmt::format("{}: prompt must be a length between 1 and {}, that of tokens", name, tokens));
    return;
  }
  out.prompt = entry["prompt"].get<std::int64_t>();
  if (!entry.contains("hits")) return;
  bool good = entry["hits"].is_array();
  for (std::size_t i = 0; good && i < entry["hits"].size(); ++i) {
    good = is_length(entry["hits"][i], out.hits.empty() ? 1 : out.hits.back() + 1, out.prompt - 1);
    if (good) out.hits.push_back(entry["hits"][i].get<std::int64_t>());
  }
  if (!good)
    problems.push_back(fmt::format("{}: hits must be a list of ascending lengths below prompt", name));
}

}  // namespace

std::vector<Case> parse_cases(std::string_view text, const std::string& subject, std::int64_t vocab_size) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) throw Error(ErrorCode::kBadFile, subject + ": not valid JSON");
  if (!json.is_object() || !json.contains("cases") || !json["cases"].is_array())
    throw Error(ErrorCode::kBadFile, subject + ": expected an object with a list named \"cases\"");
  std::vector<Case> cases;
  std::vector<std::string> problems;
  std::set<std::string> ids;
  for (const nlohmann::json& entry : json["cases"]) {
    if (problems.size() >= kProblems) break;
    const std::string place = fmt::format("case {}", cases.size());
    Case out;
    if (entry.is_object() && entry.contains("id") && entry["id"].is_string())
      out.id = entry["id"].get<std::string>();
    if (out.id.empty() || !ids.insert(out.id).second)
      problems.push_back(fmt::format("{}: it needs an id of its own", place));
    read_tokens(entry.is_object() && entry.contains("tokens") ? entry["tokens"] : nlohmann::json(),
                vocab_size, out.id.empty() ? place : "case " + out.id, out, problems);
    read_prompt(entry, out.id.empty() ? place : "case " + out.id, out, problems);
    cases.push_back(std::move(out));
  }
  if (!problems.empty()) throw Error(ErrorCode::kBadFile, subject, std::move(problems));
  return cases;
}

}  // namespace seekline
