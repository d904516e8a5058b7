// Calls as JSON between <tool_call> tags. The calls have no end of their own, so they count when the reply is
// over and nothing but well-formed calls has followed the first tag.
#include <nlohmann/json.hpp>

#include "text/chat_python_json.h"
#include "text/reply_calls.h"

namespace seekline::reply {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

class JsonCallReader final : public CallReader {
 public:
  explicit JsonCallReader(std::size_t at) : begin_(at) {}

  State read(const MarkedText& text, bool is_last) override {
    if (!is_last) return State::kMore;
    std::string_view rest = std::string_view(text.text).substr(begin_);
    while (true) {
      const std::size_t end = rest.find(kJsonCallClose);
      if (end == std::string_view::npos || !add_call(rest.substr(0, end))) return State::kBroken;
      rest.remove_prefix(end + kJsonCallClose.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
      if (rest.empty()) return State::kComplete;
      if (rest.substr(0, kJsonCallOpen.size()) != kJsonCallOpen) return State::kBroken;
      rest.remove_prefix(kJsonCallOpen.size());
    }
  }

  bool last_call_open() const override { return false; }

 private:
  // {"name": "…", "arguments": {…}} and nothing else.
  bool add_call(std::string_view text) {
    const auto call = parse_json(text);
    if (!call || !call->is_object() || call->size() != 2) return false;
    const auto name = call->find("name");
    const auto arguments = call->find("arguments");
    if (name == call->end() || arguments == call->end()) return false;
    if (!name->is_string() || name->get_ref<const std::string&>().empty() || !arguments->is_object())
      return false;
    calls_.push_back({name->get<std::string>(), python_json(*arguments)});
    return true;
  }

  std::size_t begin_;
};

}  // namespace

std::unique_ptr<CallReader> read_json_calls(std::size_t at) { return std::make_unique<JsonCallReader>(at); }

}  // namespace seekline::reply
