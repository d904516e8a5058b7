// Encoding and decoding speed in MB/s on generated text of several kinds, with the released V4 vocabulary.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "text/compressed_vocabulary.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

constexpr std::size_t kTextBytes = 1'000'000;

std::string file() { return SEEKLINE_SOURCE_DIR "/tests/golden/data/text/deepseek-v4/tokenizer.json"; }

const Tokenizer& tokenizer() {
  static const Tokenizer instance = Tokenizer::load(file());
  return instance;
}

/// Random ones of `words` up to about kTextBytes.
std::string text_of(const std::vector<std::string>& words) {
  std::mt19937_64 random(3);
  std::string text;
  while (text.size() < kTextBytes) text += words[random() % words.size()];
  return text;
}

std::string english() {
  return text_of({"The ",  "cache ",    "that ",       "survives ", "a ",      "restart ", "saves ",
                  "more ", "time ",     "than ",       "fast ",     "kernels", ", ",       ". ",
                  "\n\n",  "engineer ", "whiteboard ", "2025",      " isn't ", "(twice) "});
}

std::string code() {
  return text_of({"for (int i = 0; i < n; ++i) {\n", "    return ", "std::vector<float> ", "x",
                  " += ", "0x1F", ";\n", "  }\n", "// ", "kernel", "->", "size()", "\"text\"", "\t", " && ",
                  "template <typename T>\n"});
}

std::string chinese() {
  return text_of({"\u7F13\u5B58", "\u7684", "\u91CD\u542F", "\u4E4B\u540E", "\u6A21\u578B", "\uFF0C",
                  "\u3002", "\u6211\u4EEC", "\u5728", "\u8BA1\u7B97", "\u65F6\u95F4", "2024\u5E74", "\n"});
}

void encode(benchmark::State& state, const std::string& text) {
  std::size_t tokens =
      tokenizer().encode(text, true).size();  // the vocabulary is loaded before the clock runs
  for (auto _ : state) tokens = tokenizer().encode(text, true).size();
  state.counters["MB/s"] = benchmark::Counter(static_cast<double>(text.size()) / 1e6,
                                              benchmark::Counter::kIsIterationInvariantRate);
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void encode_english(benchmark::State& state) { encode(state, english()); }
void encode_code(benchmark::State& state) { encode(state, code()); }
void encode_chinese(benchmark::State& state) { encode(state, chinese()); }
// One piece of a million symbols each: what a quadratic tokenizer hangs on.
void encode_one_letter(benchmark::State& state) { encode(state, std::string(kTextBytes, 'a')); }
void encode_blanks(benchmark::State& state) { encode(state, std::string(kTextBytes, ' ') + "x"); }
void encode_random_letters(benchmark::State& state) {
  std::mt19937_64 random(5);
  std::string text(kTextBytes, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  encode(state, text);
}

void decode(benchmark::State& state) {
  const std::string text = english();
  const std::vector<TokenId> ids = tokenizer().encode(text, true);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode_text(ids));
  state.counters["MB/s"] = benchmark::Counter(static_cast<double>(text.size()) / 1e6,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::load(file()).size());
}

void compress(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(compress_vocabulary(tokenizer()).classes);
}

BENCHMARK(encode_english)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_code)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_chinese)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_one_letter)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_blanks)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_random_letters)->Unit(benchmark::kMillisecond);
BENCHMARK(decode)->Unit(benchmark::kMillisecond);
BENCHMARK(load)->Unit(benchmark::kMillisecond);
BENCHMARK(compress)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace seekline
