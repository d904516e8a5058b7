#include "text/compressed_vocabulary.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <string>
#include <string_view>
#include <unordered_map>

#include "core/check.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace seekline {
namespace {

class Normaliser {
 public:
  /// NFKC, NFD, marks dropped, lower case, white space collapsed and stripped.
  std::string normalise(std::string_view text) const {
    UErrorCode status = U_ZERO_ERROR;
    const auto piece = icu::StringPiece(text.data(), static_cast<int32_t>(text.size()));
    icu::UnicodeString unicode = icu::UnicodeString::fromUTF8(piece);
    unicode = nfkc_->normalize(unicode, status);
    unicode = nfd_->normalize(unicode, status);
    SEEKLINE_CHECK(U_SUCCESS(status) != 0, "ICU could not normalise a token");
    std::u32string characters;
    for (int32_t i = 0; i < unicode.length(); i = unicode.moveIndex32(i, 1)) {
      const UChar32 c = unicode.char32At(i);
      if (dropped_.contains(static_cast<std::uint32_t>(c))) continue;
      // After NFD the simple mapping is the full one: only U+0130 maps to more, and it is decomposed by now.
      characters += static_cast<char32_t>(u_tolower(c));
    }
    return strip(collapse(characters));
  }

 private:
  static std::u32string collapse(const std::u32string& text) {
    std::u32string result;
    for (const char32_t c : text) {
      const bool blank = c == U' ' || c == U'\t' || c == U'\r' || c == U'\n';
      if (!blank) {
        result += c;
      } else if (result.empty() || result.back() != U' ') {
        result += U' ';
      }
    }
    return result;
  }

  std::string strip(std::u32string_view text) const {
    if (text != U" ") {
      while (!text.empty() && stripped_.contains(text.front())) text.remove_prefix(1);
      while (!text.empty() && stripped_.contains(text.back())) text.remove_suffix(1);
    }
    std::string result;
    for (const char32_t c : text) append_utf8(c, result);
    return result;
  }

  static const icu::Normalizer2* instance(const icu::Normalizer2* (*get)(UErrorCode&)) {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* normalizer = get(status);
    SEEKLINE_CHECK(U_SUCCESS(status) != 0, "ICU has no normalisation data");
    return normalizer;
  }

  const icu::Normalizer2* nfkc_ = instance(icu::Normalizer2::getNFKCInstance);
  const icu::Normalizer2* nfd_ = instance(icu::Normalizer2::getNFDInstance);
  CharSet dropped_{{unicode::kEngramDropped.begin(), unicode::kEngramDropped.end()}};
  CharSet stripped_{{unicode::kEngramStripped.begin(), unicode::kEngramStripped.end()}};
};

}  // namespace

CompressedVocabulary compress_vocabulary(const Tokenizer& tokenizer) {
  const Normaliser normaliser;
  CompressedVocabulary result;
  // Raw spellings and normalised texts share one key space on purpose (byte A1, spelt U+00A1, joins U+00A1).
  std::unordered_map<std::string, std::int32_t> class_with;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    const std::string text = tokenizer.decode_text({&id, 1});
    std::string key;
    if (text.find(kReplacementCharacter) != std::string::npos) {
      key = tokenizer.token_spelling(id);
    } else {
      key = normaliser.normalise(text);
      if (key.empty()) key = text;
    }
    const auto [found, is_new] = class_with.try_emplace(std::move(key), result.classes);
    if (is_new) ++result.classes;
    result.class_of.push_back(found->second);
  }
  return result;
}

}  // namespace seekline
