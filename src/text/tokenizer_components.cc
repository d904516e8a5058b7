#include "text/tokenizer_components.h"

#include <fmt/format.h>

namespace seekline {
namespace {

constexpr std::size_t kMaxSteps = 32;
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The parts of a component: the list of a "Sequence", else the component itself; none for null. Sequences
/// inside sequences are not something released files have.
std::vector<JsonView> parts_of(const JsonView& component, const char* list) {
  if (component.is_null()) return {};
  if (component.type() != "Sequence") return {component};
  component.only({"type", list});
  std::vector<JsonView> parts = component.member(list).elements();
  if (parts.size() > kMaxSteps) {
    component.unsupported(fmt::format("it has {} steps, over the limit of {}", parts.size(), kMaxSteps));
  }
  return parts;
}

[[noreturn]] void refuse_type(const JsonView& component, const char* kind, const char* known) {
  component.unsupported(
      fmt::format("the {} {} is not supported (known: {})", kind, component.member("type").shown(), known));
}

std::string split_pattern_of(const JsonView& step) {
  step.only({"type", "pattern", "behavior", "invert"});
  const JsonView behavior = step.member("behavior");
  if (behavior.string() != "Isolated") {
    step.unsupported(fmt::format("the behavior {} is not supported (known: Isolated)", behavior.shown()));
  }
  step.member("invert").boolean();  // Isolated cuts at the same places either way
  const JsonView pattern = step.member("pattern");
  pattern.only({"Regex"});
  return pattern.member("Regex").string();
}

/// Whether the byte-level step also cuts by GPT-2's pattern.
bool byte_level_cuts(const JsonView& step) {
  step.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  step.must_be("add_prefix_space", false);
  if (!step.has("add_prefix_space")) step.bad("\"add_prefix_space\" is missing");
  return !step.has("use_regex") || step.member("use_regex").boolean();
}

std::vector<TokenId> template_begin(const JsonView& processor) {
  processor.only({"type", "single", "pair", "special_tokens"});
  std::vector<TokenId> begin;
  bool text_seen = false;
  for (const JsonView& piece : processor.member("single").elements()) {
    piece.only({"SpecialToken", "Sequence"});
    if (piece.has("Sequence")) {
      text_seen = true;
      continue;
    }
    if (text_seen) piece.unsupported("tokens put after a text are not supported");
    const std::string& name = piece.member("SpecialToken").member("id").string();
    for (const JsonView& id :
         processor.member("special_tokens").member(name.c_str()).member("ids").elements()) {
      begin.push_back(id.id());
    }
  }
  if (!text_seen) processor.bad("the template \"single\" has no place for the text");
  return begin;
}

}  // namespace

void check_normalizer(const JsonView& normalizer) {
  for (const JsonView& part : parts_of(normalizer, "normalizers")) {
    refuse_type(part, "normalizer", "none, an empty Sequence");
  }
}

std::vector<std::string> split_patterns_of(const JsonView& pre_tokenizer) {
  std::vector<std::string> patterns;
  bool bytes_seen = false;
  for (const JsonView& step : parts_of(pre_tokenizer, "pretokenizers")) {
    if (bytes_seen) step.unsupported("a step after ByteLevel is not supported");
    if (step.type() == "Split") {
      patterns.push_back(split_pattern_of(step));
    } else if (step.type() == "Digits") {
      step.only({"type", "individual_digits"});
      const bool single = step.has("individual_digits") && step.member("individual_digits").boolean();
      patterns.emplace_back(single ? "\\p{N}" : "\\p{N}+");
    } else if (step.type() == "ByteLevel") {
      bytes_seen = true;
      if (byte_level_cuts(step)) patterns.emplace_back(kGpt2Pattern);
    } else {
      refuse_type(step, "pre-tokenizer", "Sequence, Split, Digits, ByteLevel");
    }
  }
  if (!bytes_seen)
    pre_tokenizer.unsupported("it has no ByteLevel step; only byte-level vocabularies are supported");
  return patterns;
}

std::vector<TokenId> begin_of(const JsonView& post_processor) {
  std::vector<TokenId> begin;
  for (const JsonView& part : parts_of(post_processor, "processors")) {
    if (part.type() == "ByteLevel") {
      part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // offsets only: ids stay
    } else if (part.type() == "TemplateProcessing") {
      const std::vector<TokenId> more = template_begin(part);
      begin.insert(begin.begin(), more.begin(), more.end());
    } else {
      refuse_type(part, "post-processor", "Sequence, ByteLevel, TemplateProcessing");
    }
  }
  return begin;
}

void check_decoder(const JsonView& decoder) {
  const std::vector<JsonView> parts = parts_of(decoder, "decoders");
  for (const JsonView& part : parts) {
    if (part.type() != "ByteLevel") refuse_type(part, "decoder", "ByteLevel");
  }
  if (parts.size() != 1)
    decoder.unsupported(fmt::format("it has {} steps; one ByteLevel step is supported", parts.size()));
}

}  // namespace seekline
