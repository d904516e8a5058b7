// Any bytes as a cases.json.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/cases.h"
#include "seekline/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::int64_t kVocab = 1024;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const seekline::Case& one : seekline::parse_cases(text, "fuzzed", kVocab)) {
      if (one.id.empty() || one.tokens.empty()) std::abort();
      for (const std::int32_t token : one.tokens)
        if (token < 0 || token >= kVocab) std::abort();
    }
  } catch (const seekline::Error&) {
  }
  return 0;
}
