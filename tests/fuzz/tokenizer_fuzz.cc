// Any bytes as a tokenizer.json: either one sentence, or a tokenizer whose encoding and decoding hold their
// promises.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "seekline/error.h"
#include "text/tokenizer.h"

namespace {

// Short, so that a pattern that backtracks up to its limit at every place stays quick.
constexpr const char* kText = "The 12 caf\xC3\xA9s,\n \xE4\xB8\xAD\xE6\x96\x87 <a> \xFF\xE2\x82!";

void use(const seekline::Tokenizer& tokenizer) {
  for (const bool allow_added : {false, true}) {
    const auto ids = tokenizer.encode(kText, allow_added);
    const std::string whole = tokenizer.decode_text(ids);
    seekline::StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const seekline::TokenId id : ids) streamed += decoder.push(id);
    if (streamed + decoder.flush() != whole) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    use(seekline::Tokenizer::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz"));
  } catch (const seekline::Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();  // one sentence
  }
  return 0;
}
