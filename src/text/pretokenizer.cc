#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

#include "core/check.h"
#include "seekline/error.h"
#include "text/char_set.h"
#include "text/split_pattern.h"
#include "text/utf8.h"

namespace seekline {
namespace {

// A match may take this many backtracks and so many more per character. Released patterns need a few per
// character.
constexpr std::size_t kBacktracks = 200'000, kBacktracksPerCharacter = 32;

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* thing) const {
    release(thing);
  }
};
using Code = std::unique_ptr<pcre2_code, Release<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Release<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Release<pcre2_match_context_free>>;

std::string over_classes(const SplitPattern& pattern, const CharPartition& partition, std::size_t first_set) {
  std::string result;
  for (const SplitPattern::Part& part : pattern.parts) {
    result += part.syntax;
    if (part.set < 0) continue;
    result += '[';
    for (const std::uint8_t c : partition.classes_of_set(first_set + static_cast<std::size_t>(part.set))) {
      result += fmt::format("\\x{:02X}", c);
    }
    result += ']';
  }
  return result;
}

Code compile(const std::string& pattern, const std::string& source) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t kOptions = PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions, &error,
                          &offset, nullptr));
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("regular expression {} cannot be used: {}", shown_pattern(source), why));
  };
  if (!code) {
    PCRE2_UCHAR message[160];
    pcre2_get_error_message(error, message, sizeof message);
    refuse(reinterpret_cast<const char*>(message));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) refuse("it can match nothing at all");
  pcre2_jit_compile(code.get(),
                    PCRE2_JIT_COMPLETE);  // where it cannot, pcre2_match interprets: same result, slower
  return code;
}

/// What one call of `cut` needs to match; not shared.
struct Matcher {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};

  struct Found {
    std::size_t begin, end;
  };

  /// The first match in `classes` at or after `start`; {size, size} if there is none.
  Found find(const pcre2_code* code, std::string_view classes, std::size_t start) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(classes.data());
    int count = pcre2_match(code, subject, classes.size(), start, 0, data.get(), context.get());
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its stack on the heap
      count = pcre2_match(code, subject, classes.size(), start, PCRE2_NO_JIT, data.get(), context.get());
    }
    if (count == PCRE2_ERROR_NOMATCH) return {classes.size(), classes.size()};
    if (count < 0) {
      throw Error(
          ErrorCode::kLimit,
          fmt::format("the tokenizer's regular expressions need too many steps on a text of {} characters",
                      classes.size()));
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    SEEKLINE_CHECK(ends[1] > ends[0], "a split pattern matched nothing");
    return {ends[0], ends[1]};
  }
};

}  // namespace

struct Pretokenizer::Impl {
  CharPartition partition;
  std::vector<Code> steps;
};

Pretokenizer::Pretokenizer(const std::vector<std::string>& patterns) {
  std::vector<SplitPattern> parsed;
  std::vector<CharSet> sets;
  for (const std::string& pattern : patterns) {
    parsed.push_back(parse_split_pattern(pattern));
    sets.insert(sets.end(), parsed.back().sets.begin(), parsed.back().sets.end());
  }
  auto impl = std::make_unique<Impl>(Impl{CharPartition(sets), {}});
  if (!impl->partition.ok()) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("the pre-tokenizer's regular expressions tell apart more than {} kinds of characters",
                    CharPartition::kMaxClasses));
  }
  std::size_t first_set = 0;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    impl->steps.push_back(compile(over_classes(parsed[i], impl->partition, first_set), patterns[i]));
    first_set += parsed[i].sets.size();
  }
  impl_ = std::move(impl);
}

Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;

void Pretokenizer::cut(std::string_view text, std::vector<std::size_t>& piece_bytes) const {
  std::string classes;  // one byte a character
  classes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = first_character(text.substr(at));
    const bool valid = character.kind == Utf8Character::Kind::kValid;
    classes += static_cast<char>(valid ? impl_->partition.class_of(character.code_point)
                                       : CharPartition::kInvalidByte);
    at += valid ? character.bytes : 1;
  }

  Matcher matcher;
  pcre2_set_match_limit(matcher.context.get(),
                        static_cast<std::uint32_t>(std::min<std::size_t>(
                            kBacktracks + kBacktracksPerCharacter * classes.size(), UINT32_MAX)));
  std::vector<std::size_t> ends, cut_ends;  // of the pieces so far, in characters
  if (!classes.empty()) ends.push_back(classes.size());
  for (const Code& step : impl_->steps) {
    cut_ends.clear();
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      const std::string_view piece = std::string_view(classes).substr(begin, end - begin);
      for (std::size_t at = 0; at < piece.size();) {
        const Matcher::Found found = matcher.find(step.get(), piece, at);
        if (found.begin > at) cut_ends.push_back(begin + found.begin);
        if (found.end > found.begin) cut_ends.push_back(begin + found.end);
        at = found.end;
      }
      begin = end;
    }
    ends.swap(cut_ends);
  }

  std::size_t at = 0, character = 0;
  for (const std::size_t end : ends) {
    const std::size_t begin_byte = at;
    for (; character < end; ++character) {
      const bool one_byte = classes[character] == static_cast<char>(CharPartition::kInvalidByte);
      at += one_byte ? 1 : first_character(text.substr(at)).bytes;
    }
    piece_bytes.push_back(at - begin_byte);
  }
}

}  // namespace seekline
