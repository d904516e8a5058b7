#include "text/token_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "seekline/error.h"
#include "text/grammar_utf8.h"

namespace seekline {
namespace {

constexpr std::size_t kMaxTokenBytes = 4096;

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

TokenVocabulary::TokenVocabulary(std::span<const std::string> texts, std::vector<TokenId> end_tokens)
    : texts_(texts.begin(), texts.end()), end_tokens_(std::move(end_tokens)) {
  byte_tokens_.fill(-1);
  for (const TokenId end : end_tokens_) {
    if (end < 0 || static_cast<std::size_t>(end) >= texts_.size())
      throw Error(ErrorCode::kUsage,
                  fmt::format("the end token {} is none of the vocabulary's {} tokens", end, texts_.size()));
    texts_[static_cast<std::size_t>(end)].clear();
  }
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    if (texts_[id].size() > kMaxTokenBytes) texts_[id].clear();  // never needed, as single bytes are there
    if (texts_[id].size() == 1)
      byte_tokens_[static_cast<std::uint8_t>(texts_[id][0])] = static_cast<TokenId>(id);
  }
  check_bytes();
  build_tree();
  find_texts();
}

std::shared_ptr<const TokenVocabulary> TokenVocabulary::of(const Tokenizer& tokenizer,
                                                           std::span<const TokenId> end_tokens) {
  std::vector<std::string> texts(static_cast<std::size_t>(tokenizer.size()));
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!tokenizer.is_added(static_cast<TokenId>(id)))
      texts[id] = tokenizer.token_bytes(static_cast<TokenId>(id));
  return std::make_shared<TokenVocabulary>(texts, std::vector<TokenId>(end_tokens.begin(), end_tokens.end()));
}

bool TokenVocabulary::is_end(TokenId token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

void TokenVocabulary::check_bytes() const {
  for (int byte = 0x20; byte <= 0xBF; ++byte)
    if (byte != 0x7F && byte_tokens_[static_cast<std::size_t>(byte)] < 0)
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the vocabulary has no token for the byte 0x{:02X}, which constrained decoding needs",
                      byte));
}

void TokenVocabulary::build_tree() {
  for (std::size_t id = 0; id < texts_.size(); ++id)
    if (!texts_[id].empty()) tokens_.push_back(static_cast<TokenId>(id));
  std::sort(tokens_.begin(), tokens_.end(), [&](TokenId a, TokenId b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<std::uint32_t> open;  // [depth] the node on the way to the last text
  std::string_view last;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view now = text(tokens_[i]);
    close_to(common_prefix(last, now));
    while (open.size() < now.size()) {
      const auto byte = static_cast<std::uint8_t>(now[open.size()]);
      open.push_back(static_cast<std::uint32_t>(nodes_.size()));
      // A node without tokens of its own has the same first token as the node behind it.
      nodes_.push_back({0, i, static_cast<std::uint16_t>(open.size()), byte, false});
    }
    max_depth_ = std::max(max_depth_, now.size());
    last = now;
  }
  close_to(0);
  nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), 0, 0, false});
}

// From the leaves up: at which places of a character the texts below may begin.
void TokenVocabulary::find_texts() {
  using grammar::Utf8Place;
  constexpr std::uint8_t kNowhere = grammar::kUtf8Places;
  std::array<std::array<std::uint8_t, 256>, grammar::kUtf8Places> next{};
  for (std::size_t place = 0; place < next.size(); ++place) {
    next[place].fill(kNowhere);
    for (const grammar::Utf8Edge& edge : grammar::utf8_edges(static_cast<Utf8Place>(place)))
      for (unsigned byte = edge.first; byte <= edge.last; ++byte)
        next[place][byte] = static_cast<std::uint8_t>(edge.to);
  }
  std::vector<std::uint8_t> fits(nodes_.size());  // [node] bit p: all below it reads from place p
  for (std::size_t i = nodes_.size() - 1; i-- > 0;) {
    fits[i] = 0xFF;
    for (std::size_t child = i + 1; child < nodes_[i].end; child = nodes_[child].end)
      for (std::size_t place = 0; place < next.size(); ++place) {
        const std::uint8_t to = next[place][nodes_[child].byte];
        if (to == kNowhere || (fits[child] >> to & 1) == 0)
          fits[i] &= static_cast<std::uint8_t>(~(1u << place));
      }
    nodes_[i].text_below = (fits[i] >> static_cast<unsigned>(Utf8Place::kBetween) & 1) != 0;
  }
}

std::vector<TokenId> TokenVocabulary::spell(std::string_view text) const {
  std::vector<TokenId> spelled;
  const std::size_t count = nodes().size();
  while (!text.empty()) {
    TokenId best = -1;
    std::size_t best_bytes = 0;
    std::size_t depth = 0;
    for (std::size_t node = 0, end = count; depth < text.size() && node < end;) {
      if (nodes_[node].byte != static_cast<std::uint8_t>(text[depth])) {
        node = nodes_[node].end;
        continue;
      }
      ++depth;
      if (const auto here = tokens_at(node); !here.empty()) {
        best = here[0];
        best_bytes = depth;
      }
      end = nodes_[node].end;
      ++node;
    }
    if (best < 0)
      throw Error(ErrorCode::kUnsupported, fmt::format("the vocabulary has no token for the byte 0x{:02X}",
                                                       static_cast<std::uint8_t>(text[0])));
    spelled.push_back(best);
    text.remove_prefix(best_bytes);
  }
  return spelled;
}

}  // namespace seekline
