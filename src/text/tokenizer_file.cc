#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <unordered_map>

#include "text/byte_alphabet.h"
#include "text/json_view.h"
#include "text/tokenizer_components.h"

namespace seekline {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 256U << 20;

using Ids = std::unordered_map<std::string_view, TokenId>;

/// Text from the file as it may stand in a sentence: short and in ASCII.
std::string in_quotes(const std::string& text) {
  constexpr std::size_t kLength = 48;
  const std::string dumped = nlohmann::json(text).dump(-1, ' ', true);
  return dumped.size() <= kLength ? dumped : dumped.substr(0, kLength) + "...\"";
}

/// Every spelling of "vocab" with its id; the views are into `vocab`.
Ids read_vocabulary(const JsonView& vocab) {
  if (!vocab.is_object()) vocab.bad("expected an object of spellings and ids");
  Ids ids;
  ids.reserve(vocab.json().size());
  for (auto entry = vocab.json().begin(); entry != vocab.json().end(); ++entry) {
    const nlohmann::json& id = entry.value();
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= INT32_MAX) {
      vocab.bad(
          fmt::format("{} has an id that is not an integer from 0 to 2147483646", in_quotes(entry.key())));
    }
    if (entry.key().empty()) vocab.bad(fmt::format("id {} has an empty spelling", id.get<TokenId>()));
    ids.emplace(entry.key(), id.get<TokenId>());
  }
  if (ids.empty()) vocab.bad("it is empty");
  return ids;
}

struct Halves {
  std::string_view left, right;
};

/// "a b", or ["a", "b"] as newer files write it.
Halves halves_of(const JsonView& merges, const nlohmann::json& merge, std::size_t rank) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  }
  if (!merge.is_string()) merges.bad(fmt::format("merge {} is neither a string nor a pair of strings", rank));
  const std::string_view both = merge.get_ref<const std::string&>();
  const std::size_t blank = both.find(' ');
  if (blank == std::string::npos || blank == 0 || blank + 1 == both.size() ||
      both.find(' ', blank + 1) != std::string::npos) {
    merges.bad(fmt::format("merge {} is {}, expected two spellings with one blank between", rank,
                           in_quotes(std::string(both))));
  }
  return {both.substr(0, blank), both.substr(blank + 1)};
}

std::vector<Merge> read_merges(const JsonView& merges, const Ids& ids) {
  if (!merges.json().is_array()) merges.bad("expected a list");
  const auto id_of = [&](std::string_view spelling, std::size_t rank) {
    const auto found = ids.find(spelling);
    if (found == ids.end()) {
      merges.bad(fmt::format("merge {} needs the token {}, which is not in the vocabulary", rank,
                             in_quotes(std::string(spelling))));
    }
    return found->second;
  };
  std::vector<Merge> result;
  result.reserve(merges.json().size());
  std::unordered_map<std::uint64_t, std::size_t> rank_of;
  rank_of.reserve(merges.json().size());
  std::string merged;
  for (std::size_t rank = 0; rank < merges.json().size(); ++rank) {
    const auto [left, right] = halves_of(merges, merges.json()[rank], rank);
    merged.assign(left).append(right);
    result.push_back({id_of(left, rank), id_of(right, rank), id_of(merged, rank)});
    const std::uint64_t pair = static_cast<std::uint64_t>(result.back().left) << 32 |
                               static_cast<std::uint32_t>(result.back().right);
    const auto [earlier, is_new] = rank_of.emplace(pair, rank);
    if (!is_new) merges.bad(fmt::format("merges {} and {} are the same pair", earlier->second, rank));
  }
  return result;
}

AddedToken read_added_token(const JsonView& entry) {
  entry.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
    if (entry.member(flag).boolean())
      entry.unsupported(fmt::format("\"{}\" is true, and only false is supported", flag));
  }
  AddedToken token{entry.member("id").id(), entry.member("content").string(),
                   entry.member("special").boolean(), entry.member("normalized").boolean()};
  if (token.content.empty()) entry.bad("\"content\" is empty");
  return token;
}

std::vector<AddedToken> read_added_tokens(const JsonView& list, const Ids& ids) {
  std::vector<AddedToken> added;
  std::unordered_map<std::string, TokenId> id_with;
  for (const JsonView& entry : list.elements()) {
    added.push_back(read_added_token(entry));
    const AddedToken& token = added.back();
    if (!id_with.emplace(token.content, token.id).second) {
      entry.bad(fmt::format("the content {} appears twice", in_quotes(token.content)));
    }
    const auto same = ids.find(token.content);
    if (same != ids.end() && same->second != token.id) {
      entry.bad(fmt::format("{} has id {}, and id {} in the vocabulary", in_quotes(token.content), token.id,
                            same->second));
    }
  }
  return added;
}

/// Spelling by id. All ids of vocabulary and added tokens together must be 0 .. n-1, each with one spelling.
std::vector<std::string> place_spellings(const JsonView& file, const Ids& ids,
                                         const std::vector<AddedToken>& added) {
  std::vector<std::pair<TokenId, std::string_view>> placed;
  for (const auto& [spelling, id] : ids) placed.emplace_back(id, spelling);
  for (const AddedToken& token : added) {
    if (!ids.contains(token.content)) placed.emplace_back(token.id, token.content);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<std::string> spellings;
  for (const auto& [id, spelling] : placed) {
    const auto expected = static_cast<TokenId>(spellings.size());
    if (id < expected) {
      file.bad(fmt::format("id {} belongs to both {} and {}", id, in_quotes(spellings.back()),
                           in_quotes(std::string(spelling))));
    }
    if (id > expected)
      file.bad(fmt::format("no token has id {}, though ids go up to {}", expected, placed.back().first));
    spellings.emplace_back(spelling);
  }
  return spellings;
}

/// An unknown token can only be honoured where it can never occur.
void check_unknown_token(const JsonView& model, const Ids& ids) {
  if (!model.has("unk_token")) return;
  for (int byte = 0; byte < 256; ++byte) {
    if (ids.contains(byte_spelling(static_cast<std::uint8_t>(byte)))) continue;
    model.unsupported(
        fmt::format("\"unk_token\" is set, and the vocabulary has no token for byte {:02x}", byte));
  }
}

void check_model(const JsonView& model) {
  if (model.type() != "BPE")
    model.unsupported(
        fmt::format("the model {} is not supported (known: BPE)", model.member("type").shown()));
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  model.must_be("dropout", 0.0);
  model.must_be("continuing_subword_prefix", "");
  model.must_be("end_of_word_suffix", "");
  model.must_be("byte_fallback", false);
}

}  // namespace

TokenizerFile parse_tokenizer_file(const std::string& text, const std::string& name) {
  const nlohmann::json json = parse_json(text, name);
  const JsonView file(json, name);
  file.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"});
  file.must_be("version", "1.0");
  file.must_be("truncation", nullptr);
  file.must_be("padding", nullptr);
  const JsonView model = file.member("model");
  check_model(model);
  check_normalizer(file.member("normalizer"));
  check_decoder(file.member("decoder"));

  TokenizerFile result;
  result.split_patterns = split_patterns_of(file.member("pre_tokenizer"));
  result.begin = begin_of(file.member("post_processor"));
  const JsonView vocab = model.member("vocab");
  const Ids ids = read_vocabulary(vocab);
  check_unknown_token(model, ids);
  result.merges = read_merges(model.member("merges"), ids);
  result.ignore_merges = model.has("ignore_merges") && model.member("ignore_merges").boolean();
  result.added = read_added_tokens(file.member("added_tokens"), ids);
  result.spellings = place_spellings(file, ids, result.added);
  for (const TokenId id : result.begin) {
    if (static_cast<std::size_t>(id) >= result.spellings.size()) {
      file.bad(fmt::format("the post-processor adds id {}, and the largest id is {}", id,
                           result.spellings.size() - 1));
    }
  }
  return result;
}

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw Error(ErrorCode::kNotFound, fmt::format("{}: no such file", name));
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(ErrorCode::kBadFile, fmt::format("{}: not a file", name));
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw Error(ErrorCode::kIo, fmt::format("{}: {}", name, error.message()));
  if (bytes > kMaxFileBytes) {
    throw Error(ErrorCode::kBadFile,
                fmt::format("{}: {} bytes, over the limit of {}", name, bytes, kMaxFileBytes));
  }
  std::string text(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(bytes))) {
    throw Error(ErrorCode::kIo, fmt::format("{}: cannot be read", name));
  }
  return parse_tokenizer_file(text, name);
}

}  // namespace seekline
