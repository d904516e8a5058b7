#include "text/chat_formats.h"

#include <algorithm>
#include <array>
#include <string>

#include "seekline/error.h"
#include "text/chat_prompt.h"

namespace seekline {
namespace {

std::array<const ChatFormat*, 7> all_formats() {
  return {&chat::deepseek_v41(), &chat::deepseek_v4(), &chat::deepseek_v4_preview(),
          &chat::deepseek_v32(), &chat::deepseek_v3(), &chat::deepseek_v2(),
          &chat::chatml()};
}

}  // namespace

std::vector<std::string_view> chat_format_names() {
  std::vector<std::string_view> names;
  for (const ChatFormat* format : all_formats()) names.push_back(format->name());
  return names;
}

const ChatFormat& chat_format(std::string_view name) {
  std::string known;
  for (const ChatFormat* format : all_formats()) {
    if (format->name() == name) return *format;
    known += (known.empty() ? "" : ", ") + std::string(format->name());
  }
  throw Error(ErrorCode::kUsage,
              "there is no chat format \"" + std::string(name) + "\"; the formats are " + known);
}

const ChatFormat* chat_format_of(std::string_view model_type, const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view token) { return tokenizer.added_token(token).has_value(); };
  if (model_type == "deepseek_v41") return &chat::deepseek_v41();
  if (model_type == "deepseek_v4") return &chat::deepseek_v4();
  if (model_type == "deepseek_v32") return &chat::deepseek_v32();
  if (model_type == "deepseek_v3") return &chat::deepseek_v3();
  // V2.5 keeps V2's architecture and takes V3's turn tokens.
  if (model_type == "deepseek_v2") return has(chat::kUser) ? &chat::deepseek_v3() : &chat::deepseek_v2();
  if (has("<|im_start|>") && has("<|im_end|>")) return &chat::chatml();
  return nullptr;
}

}  // namespace seekline
