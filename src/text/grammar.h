// Constrained decoding: which tokens may come next so that a text is JSON of a given shape.
//
// Supported keywords of JSON Schema: type, properties, required, additionalProperties, items, enum, const,
// anyOf and $ref into the same document ($defs, definitions, recursive too). Annotations are ignored: title,
// description, default, examples, deprecated, readOnly, writeOnly, $schema, $comment, and $id at the root.
// Every other keyword, `format` included, is refused by name: ignoring it would promise more than is kept.
//
// What is written always validates, but not everything that validates is written: properties come in the
// order of the schema, further ones after them and, where a schema has `properties`, only if
// additionalProperties says so; white space and the lengths of numbers are limited
// (docs/constrained-decoding.md).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_vocabulary.h"

namespace seekline {

namespace grammar {
class Automaton;
class Stacks;
}  // namespace grammar

/// Immutable and cheap to copy; any thread may use it.
class Grammar {
 public:
  /// Any JSON object.
  static Grammar json_object();
  /// Values that validate against `schema`. Throws Error in one sentence that names the place: kUnsupported
  /// for a keyword or a combination that cannot be kept, kUsage for a schema that is none or that no value
  /// satisfies, kLimit for one that is too large.
  static Grammar from_json_schema(const nlohmann::ordered_json& schema);

  /// A shortest text of the grammar.
  std::string shortest() const;

 private:
  friend class GrammarState;
  Grammar(std::shared_ptr<const grammar::Automaton> automaton, std::uint32_t root);

  std::shared_ptr<const grammar::Automaton> automaton_;
  std::uint32_t root_;
};

/// A text of a grammar while it is written, token by token. One thread at a time.
///
/// From every state that can be reached a text can be finished: mask() is never empty before finished(). So
/// that it also is finished when tokens run out, ask fits() before accept() and, where it says no, write
/// completion_tokens() instead: see advance().
class GrammarState {
 public:
  /// Throws Error(kUnsupported) where the vocabulary cannot spell what the schema asks for.
  GrammarState(Grammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary);
  ~GrammarState();
  GrammarState(GrammarState&&) noexcept;
  GrammarState& operator=(GrammarState&&) noexcept;

  /// allowed[token] = 1 for what may come next, else 0. At least as long as the vocabulary; the rest becomes
  /// 0. End tokens are allowed where can_end().
  void mask(std::span<std::uint8_t> allowed);
  /// Takes a token; false, and nothing changes, where the mask does not allow it.
  bool accept(TokenId token);
  /// Takes text that was written in another way, such as the start of an answer that the client gave.
  bool accept_text(std::string_view text);

  bool can_end() const;   ///< what is there is a whole text
  bool finished() const;  ///< and nothing can follow it, or an end token was taken

  /// What would finish the text in the fewest bytes: as text, and as tokens (at most one a byte, none of them
  /// an end token).
  std::string completion() const;
  std::vector<TokenId> completion_tokens() const;
  /// After `token`, at most `tokens_left` further tokens can finish the text.
  bool fits(TokenId token, std::int64_t tokens_left);

  /// Takes a token that the mask allows where it leaves room to finish the text within `tokens_left` tokens,
  /// itself included, and gives nothing. Otherwise ends the text and gives the tokens that finish it instead:
  /// the rest of the answer, which may be empty. This holds when the text could be finished in `tokens_left`
  /// tokens before: check completion_tokens() once at the start.
  std::optional<std::vector<TokenId>> advance(TokenId token, std::int64_t tokens_left);

 private:
  struct Masks;
  std::uint32_t after(std::uint32_t place, std::string_view text);
  std::vector<TokenId> completion_tokens_at(std::uint32_t place) const;
  void collect_garbage();

  Grammar grammar_;
  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::unique_ptr<grammar::Stacks> stacks_;
  std::uint32_t place_ = 0;
  bool ended_ = false;  // an end token was taken
  std::unique_ptr<Masks> masks_;
};

}  // namespace seekline
