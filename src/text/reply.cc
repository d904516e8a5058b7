#include "text/reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "text/reply_calls.h"
#include "text/utf8.h"

namespace seekline {

using reply::CallReader;
using reply::MarkedText;
using reply::Match;
using reply::Tag;

namespace {

// Bytes at the end of `text` that begin a character and do not finish it.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const auto character = first_character(text.substr(text.size() - back));
    return character.kind == Utf8Character::Kind::kIncomplete ? back : 0;
  }
  return 0;
}

}  // namespace

class ReplyParser::Impl {
 public:
  Impl(const ReplySyntax& syntax, const ReplyOptions& options)
      : syntax_(syntax), options_(options), calls_on_(options.calls_allowed) {
    if (syntax.kind == ReplySyntax::Kind::kDsml) {
      open_ = reply::dsml_tag("<", syntax.block + ">");
      stray_open_ = reply::dsml_tag("<", "");
      stray_close_ = reply::dsml_tag("</", "");
      think_end_.text = reply::kThinkEnd;
      think_end_.marker_size = reply::kThinkEnd.size();
    } else {
      open_.text = reply::kJsonCallOpen;
      if (syntax.kind == ReplySyntax::Kind::kPlain) calls_on_ = false;
    }
    switch (options.start) {
      case ReplyStart::kReasoning:
      case ReplyStart::kReasoningContinued:
        SEEKLINE_CHECK(has_reasoning(), "only a DSML format starts its replies in reasoning");
        place_ = Place::kReasoning;
        drops_newlines_ = options.start == ReplyStart::kReasoning;
        break;
      case ReplyStart::kContent:
        drops_newlines_ = has_reasoning();
        drops_blank_ = syntax.drops_first_blank;
        break;
      case ReplyStart::kContentContinued:
        break;
      case ReplyStart::kCalls:
        SEEKLINE_CHECK(calls_on_, "a reply that starts in calls may call");
        open_block(0);
        break;
    }
  }

  std::vector<ReplyEvent> feed(std::string_view text, bool markers) {
    if (place_ == Place::kDone) return {};
    pending_.append(text, markers);
    const std::size_t held = unfinished_character(pending_.text);
    MarkedText unfinished;
    unfinished.append(pending_, pending_.size() - held);
    pending_.text.resize(pending_.size() - held);
    pending_.marks.resize(pending_.text.size());
    run(/*is_last=*/false);
    pending_.append(unfinished);
    return std::exchange(events_, {});
  }

  std::vector<ReplyEvent> finish() {
    run(/*is_last=*/true);
    return std::exchange(events_, {});
  }

  bool calls_complete() const { return place_ == Place::kDone; }
  const Reply& reply() const { return reply_; }

 private:
  enum class Place : std::uint8_t {
    kReasoning,
    kContent,
    kCalls,     ///< inside a block
    kVerbatim,  ///< after malformed DSML in content: nothing is special any more
    kDone,      ///< after a well-formed block: the rest is dropped
  };

  bool has_reasoning() const { return syntax_.kind == ReplySyntax::Kind::kDsml; }

  void run(bool is_last) {
    while (true) {
      const Place before = place_;
      switch (place_) {
        case Place::kReasoning:
        case Place::kContent:
          read_text(is_last);
          break;
        case Place::kCalls:
          read_calls(is_last);
          break;
        case Place::kVerbatim:
          emit(pending_.size());
          break;
        case Place::kDone:
          pending_ = {};
          break;
      }
      if (place_ == before) return;
    }
  }

  // Emits text up to a tag, or up to what may still become one. Stops after every change of place.
  void read_text(bool is_last) {
    drop_leading();
    const bool newlines_matter = calls_on_ || place_ == Place::kReasoning;
    std::size_t from = 0;
    while (true) {
      const std::size_t begin = pending_.text.find_first_of(newlines_matter ? "<\n" : "<", from);
      if (begin == std::string::npos) return emit(pending_.size());
      // Newlines right before a tag belong to the tag.
      const std::size_t tag_at = pending_.text.find_first_not_of('\n', begin);
      if (tag_at == std::string::npos) return emit(is_last ? pending_.size() : begin);
      const Match opens = calls_on_ ? reply::match(pending_, tag_at, open_) : Match::kNo;
      const Match closes = has_reasoning() ? reply::match(pending_, tag_at, think_end_) : Match::kNo;
      const Match strays = calls_on_ && has_reasoning() ? stray_tag(tag_at) : Match::kNo;
      if (opens == Match::kYes) {
        emit(begin);
        return open_block(tag_at - begin + open_.text.size());
      }
      if (closes == Match::kYes) {
        if (place_ == Place::kReasoning) return end_reasoning(begin, tag_at);
        emit(tag_at);  // a second </think> is dropped, what stands around it is content
        pending_.drop_front(think_end_.text.size());
        drops_newlines_ = false;
        from = 0;
        continue;
      }
      const bool may_become_tag = std::max({opens, closes, strays}) != Match::kNo && strays != Match::kYes;
      if (!is_last && (may_become_tag || opens == Match::kPartial)) return emit(begin);
      if (strays == Match::kYes) {
        calls_on_ = false;
        if (place_ == Place::kContent) {
          place_ = Place::kVerbatim;
          return;
        }
      }
      from = tag_at + (pending_.text[tag_at] == '<' ? 1 : 0);
    }
  }

  // A DSML tag that opens no block: whatever it is part of is malformed, and nothing after it is called.
  Match stray_tag(std::size_t at) const {
    return std::max(reply::match(pending_, at, stray_open_), reply::match(pending_, at, stray_close_));
  }

  void end_reasoning(std::size_t reasoning_end, std::size_t tag_at) {
    emit(reasoning_end);
    pending_.drop_front(tag_at - reasoning_end + think_end_.text.size());
    place_ = Place::kContent;
    drops_newlines_ = true;
    calls_on_ = options_.calls_allowed;  // a malformed block in the reasoning does not forbid calls after it
  }

  // The first `bytes` of the pending text are the newlines and the tag that open a block.
  void open_block(std::size_t bytes) {
    in_reasoning_ = place_ == Place::kReasoning;
    place_ = Place::kCalls;
    block_ = {};
    reader_ = has_reasoning() ? reply::read_dsml_calls(syntax_, bytes) : reply::read_json_calls(bytes);
    calls_begun_ = 0;
    arguments_sent_ = 0;
  }

  void read_calls(bool is_last) {
    block_.append(pending_);
    pending_ = {};
    const CallReader::State state = reader_->read(block_, is_last);
    if (state == CallReader::State::kMore) {
      if (options_.stream_calls && !reader_->calls().empty()) send_first_call(/*whole=*/false);
    } else if (state == CallReader::State::kComplete && all_parse()) {
      accept_calls();
    } else {
      reject_calls();
    }
  }

  bool all_parse() const {
    return std::all_of(reader_->calls().begin(), reader_->calls().end(),
                       [](const ReplyCall& call) { return nlohmann::json::accept(call.arguments); });
  }

  // The first call's arguments as far as they are certain, without the brace that would make them parse.
  void send_first_call(bool whole) {
    const ReplyCall& call = reader_->calls().front();
    if (calls_begun_ == 0) {
      calls_begun_ = 1;
      events_.push_back({ReplyEvent::Kind::kCallBegin, 0, call.name});
    }
    const bool open = reader_->last_call_open() && reader_->calls().size() == 1;
    const std::size_t end = call.arguments.size() - (whole || open ? 0 : 1);
    if (end > arguments_sent_)
      events_.push_back({ReplyEvent::Kind::kCallArguments, 0,
                         call.arguments.substr(arguments_sent_, end - arguments_sent_)});
    arguments_sent_ = std::max(arguments_sent_, end);
  }

  void accept_calls() {
    const auto& calls = reader_->calls();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (i == 0) {
        send_first_call(/*whole=*/true);
      } else {
        events_.push_back({ReplyEvent::Kind::kCallBegin, static_cast<int>(i), calls[i].name});
        events_.push_back({ReplyEvent::Kind::kCallArguments, static_cast<int>(i), calls[i].arguments});
      }
      events_.push_back({ReplyEvent::Kind::kCallEnd, static_cast<int>(i), ""});
    }
    reply_.calls = calls;
    place_ = Place::kDone;
  }

  void reject_calls() {
    if (calls_begun_ > 0) events_.push_back({ReplyEvent::Kind::kCallsRejected, -1, ""});
    pending_ = std::exchange(block_, {});
    calls_on_ = false;
    place_ = in_reasoning_ ? Place::kReasoning : Place::kVerbatim;
    drops_newlines_ = false;
  }

  void drop_leading() {
    if (drops_newlines_) {
      const std::size_t first = pending_.text.find_first_not_of('\n');
      pending_.drop_front(std::min(first, pending_.size()));
    }
    if (drops_blank_ && pending_.size() > 0) {
      if (pending_.text[0] == ' ') pending_.drop_front(1);
      drops_blank_ = false;
    }
  }

  void emit(std::size_t bytes) {
    if (bytes == 0) return;
    const bool reasoning = place_ == Place::kReasoning;
    events_.push_back({reasoning ? ReplyEvent::Kind::kReasoning : ReplyEvent::Kind::kContent, -1,
                       pending_.text.substr(0, bytes)});
    (reasoning ? reply_.reasoning : reply_.content) += events_.back().text;
    pending_.drop_front(bytes);
    drops_newlines_ = false;
  }

  const ReplySyntax syntax_;
  const ReplyOptions options_;
  Tag open_, think_end_, stray_open_, stray_close_;
  Place place_ = Place::kContent;
  bool calls_on_;
  bool drops_newlines_ = false;
  bool drops_blank_ = false;
  MarkedText pending_;  // read, not yet emitted
  std::vector<ReplyEvent> events_;
  Reply reply_;

  MarkedText block_;  // of the block being read, from the newlines before its tag
  bool in_reasoning_ = false;
  std::unique_ptr<CallReader> reader_;
  int calls_begun_ = 0;
  std::size_t arguments_sent_ = 0;
};

ReplyParser::ReplyParser(const ReplySyntax& syntax, const ReplyOptions& options)
    : impl_(std::make_unique<Impl>(syntax, options)) {}
ReplyParser::~ReplyParser() = default;
ReplyParser::ReplyParser(ReplyParser&&) noexcept = default;
ReplyParser& ReplyParser::operator=(ReplyParser&&) noexcept = default;

std::vector<ReplyEvent> ReplyParser::feed(std::string_view text, bool markers) {
  return impl_->feed(text, markers);
}
std::vector<ReplyEvent> ReplyParser::finish() { return impl_->finish(); }
bool ReplyParser::calls_complete() const { return impl_->calls_complete(); }
const Reply& ReplyParser::reply() const { return impl_->reply(); }

ReplyStream::ReplyStream(const Tokenizer& tokenizer, const ReplySyntax& syntax, const ReplyOptions& options)
    : tokenizer_(&tokenizer),
      decoder_(tokenizer),
      parser_(syntax, options),
      tokenizer_has_markers_(tokenizer.added_token(reply::kDsmlMarker).has_value() &&
                             tokenizer.added_token(reply::kThinkEnd).has_value()) {}

std::vector<ReplyEvent> ReplyStream::push(TokenId id) {
  const bool markers = !tokenizer_has_markers_ || tokenizer_->is_added(id);
  return parser_.feed(decoder_.push(id), markers);
}

std::vector<ReplyEvent> ReplyStream::finish() {
  std::vector<ReplyEvent> events = parser_.feed(decoder_.flush(), !tokenizer_has_markers_);
  for (ReplyEvent& event : parser_.finish()) events.push_back(std::move(event));
  return events;
}

}  // namespace seekline
