#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "seekline/error.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace seekline {
namespace {

std::array<TokenId, 256> byte_tokens_of(const std::vector<std::string>& spellings) {
  std::unordered_map<std::string, int> byte_with;
  for (int byte = 0; byte < 256; ++byte)
    byte_with.emplace(byte_spelling(static_cast<std::uint8_t>(byte)), byte);
  std::array<TokenId, 256> tokens;
  tokens.fill(-1);
  for (std::size_t id = 0; id < spellings.size(); ++id) {
    const auto found = byte_with.find(spellings[id]);
    if (found != byte_with.end()) tokens[static_cast<std::size_t>(found->second)] = static_cast<TokenId>(id);
  }
  return tokens;
}

std::vector<AddedToken> of_pass(const std::vector<AddedToken>& added, bool normalized) {
  std::vector<AddedToken> result;
  std::copy_if(added.begin(), added.end(), std::back_inserter(result),
               [&](const AddedToken& token) { return token.normalized == normalized; });
  return result;
}

}  // namespace

struct Tokenizer::Impl {
  std::vector<std::string> spellings, bytes;  // [id]
  enum class Kind : std::uint8_t { kPlain, kAdded, kSpecial };
  std::vector<Kind> kinds;  // [id]
  std::vector<TokenId> begin;
  Pretokenizer pretokenizer;
  Bpe bpe;
  AddedTokenMatcher first_pass, second_pass;
  std::unordered_map<std::string_view, TokenId> whole_pieces;  // filled where the file says ignore_merges

  explicit Impl(TokenizerFile file);

  struct Work {
    Bpe::Scratch scratch;
    std::vector<std::size_t> piece_bytes;
    std::vector<TokenId> tokens;
  };
  void encode_plain(std::string_view text, Work& work) const;
  /// Calls `between` on the text around the matches and appends the ids of the matches.
  template <typename Between>
  void around_added(const AddedTokenMatcher& matcher, std::string_view text, Work& work,
                    Between between) const;
};

Tokenizer::Impl::Impl(TokenizerFile file)
    : spellings(std::move(file.spellings)),
      kinds(spellings.size(), Kind::kPlain),
      begin(std::move(file.begin)),
      pretokenizer(file.split_patterns),
      bpe(byte_tokens_of(spellings), file.merges),
      first_pass(of_pass(file.added, false)),
      second_pass(of_pass(file.added, true)) {
  for (const AddedToken& token : file.added) {
    kinds[static_cast<std::size_t>(token.id)] = token.special ? Kind::kSpecial : Kind::kAdded;
  }
  bytes.reserve(spellings.size());
  for (std::size_t id = 0; id < spellings.size(); ++id) {
    bytes.push_back(kinds[id] == Kind::kPlain ? bytes_of_spelling(spellings[id]) : spellings[id]);
  }
  if (!file.ignore_merges) return;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    if (kinds[id] == Kind::kPlain) whole_pieces.emplace(bytes[id], static_cast<TokenId>(id));
  }
}

void Tokenizer::Impl::encode_plain(std::string_view text, Work& work) const {
  work.piece_bytes.clear();
  pretokenizer.cut(text, work.piece_bytes);
  for (const std::size_t piece_bytes : work.piece_bytes) {
    const std::string_view piece = text.substr(0, piece_bytes);
    text.remove_prefix(piece_bytes);
    const auto whole = whole_pieces.empty() ? whole_pieces.end() : whole_pieces.find(piece);
    if (whole != whole_pieces.end()) {
      work.tokens.push_back(whole->second);
    } else {
      bpe.encode(piece, work.scratch, work.tokens);
    }
  }
}

template <typename Between>
void Tokenizer::Impl::around_added(const AddedTokenMatcher& matcher, std::string_view text, Work& work,
                                   Between between) const {
  std::size_t at = 0;
  while (const auto found = matcher.find(text, at)) {
    between(text.substr(at, found->begin - at));
    work.tokens.push_back(found->id);
    at = found->begin + found->bytes;
  }
  between(text.substr(at));
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

namespace {

/// `build` may refuse a regular expression without knowing which file it came from.
template <typename Build>
auto naming_file(const std::string& name, Build build) {
  try {
    return build();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (sentence.starts_with(name)) throw;
    throw Error(error.code(), fmt::format("{}: {}", name, sentence));
  }
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  return naming_file(tokenizer_json.string(),
                     [&] { return Tokenizer(std::make_unique<Impl>(read_tokenizer_file(tokenizer_json))); });
}

Tokenizer Tokenizer::parse(const std::string& json, const std::string& name) {
  return naming_file(name,
                     [&] { return Tokenizer(std::make_unique<Impl>(parse_tokenizer_file(json, name))); });
}

std::int64_t Tokenizer::size() const { return static_cast<std::int64_t>(impl_->spellings.size()); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool allow_added) const {
  if (text.size() >= UINT32_MAX) {
    throw Error(ErrorCode::kLimit,
                fmt::format("a text of {} bytes is too long to encode; the limit is 4 GiB", text.size()));
  }
  Impl::Work work;
  const auto plain = [&](std::string_view rest) { impl_->encode_plain(rest, work); };
  if (allow_added) {
    impl_->around_added(impl_->first_pass, text, work, [&](std::string_view between) {
      impl_->around_added(impl_->second_pass, between, work, plain);
    });
  } else {
    plain(text);
  }
  return std::move(work.tokens);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string result;
  for (const TokenId id : ids) {
    if (skip_special && is_special(id)) continue;
    result += token_bytes(id);
  }
  return result;
}

std::string Tokenizer::decode_text(std::span<const TokenId> ids, bool skip_special) const {
  std::string result;
  const std::string bytes = decode(ids, skip_special);
  if (append_lossy(bytes, result) > 0) result += kReplacementCharacter;
  return result;
}

namespace {

template <typename T>
const T& at_id(const std::vector<T>& values, TokenId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= values.size()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("token id {} is not one of the tokenizer's 0 to {}", id, values.size() - 1));
  }
  return values[static_cast<std::size_t>(id)];
}

}  // namespace

std::string_view Tokenizer::token_bytes(TokenId id) const { return at_id(impl_->bytes, id); }
std::string_view Tokenizer::token_spelling(TokenId id) const { return at_id(impl_->spellings, id); }
bool Tokenizer::is_added(TokenId id) const { return at_id(impl_->kinds, id) != Impl::Kind::kPlain; }
bool Tokenizer::is_special(TokenId id) const { return at_id(impl_->kinds, id) == Impl::Kind::kSpecial; }
std::span<const TokenId> Tokenizer::begin() const { return impl_->begin; }

std::optional<TokenId> Tokenizer::added_token(std::string_view content) const {
  const auto found = impl_->first_pass.exact(content);
  return found ? found : impl_->second_pass.exact(content);
}

}  // namespace seekline
