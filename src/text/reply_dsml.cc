// A DSML block, strictly: invoke tags with one or more parameters, nothing but white space between the tags.
//
//   block      calls  </｜DSML｜BLOCK>
//   call       <｜DSML｜INVOKE name="NAME">  parameters  </｜DSML｜INVOKE>
//   parameter  <｜DSML｜PARAMETER name="KEY" string="true|false">VALUE</｜DSML｜PARAMETER>
//
// NAME is not empty and holds none of " < > newline; KEY holds no " and no DSML marker and is not repeated
// within a call; VALUE is JSON where string="false", and holds no DSML tag of any kind.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/chat_python_json.h"
#include "text/reply_calls.h"

namespace seekline::reply {
namespace {

class DsmlReader final : public CallReader {
 public:
  DsmlReader(const ReplySyntax& syntax, std::size_t at)
      : call_open_(dsml_tag("<", syntax.invoke + " name=\"")),
        call_close_(dsml_tag("</", syntax.invoke + ">")),
        parameter_open_(dsml_tag("<", syntax.parameter + " name=\"")),
        parameter_close_(dsml_tag("</", syntax.parameter + ">")),
        block_close_(dsml_tag("</", syntax.block + ">")),
        at_(at) {}

  State read(const MarkedText& text, bool is_last) override {
    while (true) {
      const Progress progress = step(text);
      if (progress == Progress::kBroken) return State::kBroken;
      if (place_ == Place::kEnd) return State::kComplete;
      if (progress == Progress::kStuck) return is_last ? State::kBroken : State::kMore;
    }
  }

  bool last_call_open() const override {
    return place_ == Place::kBetweenParameters || place_ == Place::kKey || place_ == Place::kKind ||
           place_ == Place::kValue;
  }

 private:
  enum class Place : std::uint8_t {
    kBetweenCalls,
    kCallName,
    kBetweenParameters,
    kKey,
    kKind,
    kValue,
    kEnd,
  };
  enum class Progress : std::uint8_t { kMoved, kStuck, kBroken };

  Progress step(const MarkedText& text) {
    switch (place_) {
      case Place::kBetweenCalls:
        return tag_of(text, {&call_open_, Place::kCallName}, {&block_close_, Place::kEnd});
      case Place::kCallName:
        return call_name(text);
      case Place::kBetweenParameters: {
        const Progress progress =
            tag_of(text, {&parameter_open_, Place::kKey}, {&call_close_, Place::kBetweenCalls});
        if (progress == Progress::kMoved && place_ == Place::kBetweenCalls)
          calls_.back().arguments += keys_.empty() ? "{}" : "}";
        return progress;
      }
      case Place::kKey:
        return key(text);
      case Place::kKind:
        return kind(text);
      case Place::kValue:
        return value(text);
      case Place::kEnd:
        break;
    }
    return Progress::kStuck;
  }

  struct Choice {
    const Tag* tag;
    Place then;
  };

  // White space, then one of two tags.
  Progress tag_of(const MarkedText& text, Choice a, Choice b) {
    const std::size_t begin = text.text.find_first_not_of(" \t\r\n", at_);
    if (begin == std::string::npos) return Progress::kStuck;
    bool partial = false;
    for (const Choice& choice : {a, b}) {
      const Match found = match(text, begin, *choice.tag);
      if (found == Match::kYes) {
        at_ = begin + choice.tag->text.size();
        place_ = choice.then;
        return Progress::kMoved;
      }
      partial |= found == Match::kPartial;
    }
    return partial ? Progress::kStuck : Progress::kBroken;
  }

  Progress call_name(const MarkedText& text) {
    const std::size_t end = text.text.find_first_of("\"<>\n", at_);
    if (end == std::string::npos || (text.text[end] == '"' && end + 1 == text.size()))
      return Progress::kStuck;
    if (text.text[end] != '"' || text.text[end + 1] != '>' || end == at_) return Progress::kBroken;
    calls_.push_back({text.text.substr(at_, end - at_), ""});
    keys_.clear();
    at_ = end + 2;
    place_ = Place::kBetweenParameters;
    return Progress::kMoved;
  }

  Progress key(const MarkedText& text) {
    const std::size_t end = text.text.find('"', at_);
    if (end == std::string::npos) return Progress::kStuck;
    key_ = text.text.substr(at_, end - at_);
    if (key_.find(kDsmlMarker) != std::string::npos) return Progress::kBroken;
    if (std::find(keys_.begin(), keys_.end(), key_) != keys_.end()) return Progress::kBroken;
    at_ = end;
    place_ = Place::kKind;
    return Progress::kMoved;
  }

  Progress kind(const MarkedText& text) {
    static const Tag kString{"\" string=\"true\">"};
    static const Tag kJson{"\" string=\"false\">"};
    const Match string = match(text, at_, kString);
    const Match json = match(text, at_, kJson);
    if (string == Match::kNo && json == Match::kNo) return Progress::kBroken;
    if (string != Match::kYes && json != Match::kYes) return Progress::kStuck;
    value_is_string_ = string == Match::kYes;
    at_ += (value_is_string_ ? kString : kJson).text.size();
    value_begin_ = at_;
    std::string& arguments = calls_.back().arguments;
    arguments += keys_.empty() ? "{\"" : ", \"";
    append_json_escaped(key_, arguments);
    arguments += value_is_string_ ? "\": \"" : "\": ";
    keys_.push_back(key_);
    place_ = Place::kValue;
    return Progress::kMoved;
  }

  // Moves at_ over value text that is certain, writing it out, until the closing tag.
  Progress value(const MarkedText& text) {
    static const Tag kAnyOpen = dsml_tag("<", "");
    static const Tag kAnyClose = dsml_tag("</", "");
    std::size_t from = at_;
    while (true) {
      const std::size_t tag_at = text.text.find('<', from);
      const bool at_end = tag_at == std::string::npos;
      const Match open = at_end ? Match::kPartial : match(text, tag_at, kAnyOpen);
      const Match close = at_end ? Match::kPartial : match(text, tag_at, kAnyClose);
      if (open == Match::kNo && close == Match::kNo) {
        from = tag_at + 1;
        continue;
      }
      write_value(text, at_end ? text.size() : tag_at);
      if (open != Match::kYes && close != Match::kYes) return Progress::kStuck;
      const Match end = match(text, tag_at, parameter_close_);
      if (end == Match::kPartial) return Progress::kStuck;
      if (end == Match::kNo) return Progress::kBroken;
      if (!value_is_string_ &&
          !nlohmann::json::accept(text.text.begin() + static_cast<std::ptrdiff_t>(value_begin_),
                                  text.text.begin() + static_cast<std::ptrdiff_t>(at_)))
        return Progress::kBroken;
      if (value_is_string_) calls_.back().arguments += '"';
      at_ = tag_at + parameter_close_.text.size();
      place_ = Place::kBetweenParameters;
      return Progress::kMoved;
    }
  }

  void write_value(const MarkedText& text, std::size_t end) {
    const std::string_view piece = std::string_view(text.text).substr(at_, end - at_);
    if (value_is_string_) {
      append_json_escaped(piece, calls_.back().arguments);
    } else {
      calls_.back().arguments += piece;
    }
    at_ = end;
  }

  const Tag call_open_, call_close_, parameter_open_, parameter_close_, block_close_;
  std::size_t at_;
  Place place_ = Place::kBetweenCalls;
  std::vector<std::string> keys_;  // of the call being read
  std::string key_;
  bool value_is_string_ = false;
  std::size_t value_begin_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> read_dsml_calls(const ReplySyntax& syntax, std::size_t at) {
  return std::make_unique<DsmlReader>(syntax, at);
}

}  // namespace seekline::reply
