#include "serve/answer.h"

#include <algorithm>

namespace seekline::serve {

using Kind = GenerationEvent::Kind;

Answer::Answer(const AnswerContext& context, const GenerationSpec& spec, int index, std::int64_t max_tokens,
               std::shared_ptr<Generation> generation)
    : context_(context),
      index_(index),
      max_tokens_(max_tokens),
      parallel_calls_(spec.parallel_calls),
      wants_records_(spec.top_logprobs >= 0),
      reasoning_limit_(spec.reasoning_limit),
      generation_(std::move(generation)),
      stops_(spec.stop),
      closing_(spec.closing) {
  if (spec.chat) {
    ReplyOptions options;
    options.start = spec.reply_start;
    options.calls_allowed = spec.calls_allowed;
    reply_.emplace(*context.tokenizer, *context.syntax, options);
    reasoning_ =
        spec.reply_start == ReplyStart::kReasoning || spec.reply_start == ReplyStart::kReasoningContinued;
  } else {
    decoder_.emplace(*context.tokenizer, true);
  }
  if (spec.grammar) grammar_.emplace(*spec.grammar, context.vocabulary);
}

void Answer::on_start(const ReuseReport& report) {
  if (!started_) generation_->push_start(index_, report);
  started_ = true;
}

void Answer::on_prompt(std::int64_t done) {
  GenerationEvent event{Kind::kProgress, index_};
  event.prompt_done = done;
  generation_->push(std::move(event));
}

void Answer::on_cache(std::span<const std::int64_t> store_bytes) {
  GenerationEvent event{Kind::kCache, index_};
  event.store_bytes.assign(store_bytes.begin(), store_bytes.end());
  generation_->push(std::move(event));
}

// In reasoning only its end may be forced; in content the grammar decides.
std::span<const std::uint8_t> Answer::allowed() {
  const bool must_end = in_reasoning() && reasoning_limit_ && facts_.reasoning_tokens >= *reasoning_limit_;
  if (!must_end && (in_reasoning() || !grammar_)) return {};
  mask_.assign(static_cast<std::size_t>(context_.vocab_size), 0);
  if (must_end) {
    mask_[static_cast<std::size_t>(*context_.think_end)] = 1;
  } else {
    grammar_->mask(mask_);
  }
  return mask_;
}

bool Answer::on_token(const Choice& choice) {
  ++facts_.completion_tokens;
  if (std::find(context_.end_tokens.begin(), context_.end_tokens.end(), choice.token) !=
      context_.end_tokens.end()) {
    finish_text();
    return false;
  }
  return take(choice);
}

// False: the answer is over.
bool Answer::take(const Choice& choice) {
  if (in_reasoning()) {
    ++facts_.reasoning_tokens;
    if (choice.token == context_.think_end) reasoning_ = false;
    feed(choice.token);
  } else if (!grammar_) {
    if (wants_records_) records_.push_back({choice});
    feed(choice.token);
  } else {
    // Where the tokens that are left would not suffice, the shortest end replaces the choice.
    const auto rest =
        grammar_->advance(choice.token, max_tokens_ - facts_.completion_tokens + 1 - std::ssize(closing_));
    if (!rest) {
      if (wants_records_) records_.push_back({choice});
      feed(choice.token);
    } else {
      for (const TokenId token : *rest) feed(token);
      facts_.completion_tokens += static_cast<std::int64_t>(rest->size()) - 1;
    }
    if (rest || grammar_->finished()) {
      for (const TokenId token : closing_) feed(token);
      facts_.completion_tokens += std::ssize(closing_);
      finish_text();
      if (rest) facts_.finish = Finish::kLength;  // valid, but not what the model would have said
      return false;
    }
  }
  if (calls_ended_ || (reply_ && reply_->calls_complete())) {
    finish_text();
    return false;
  }
  if (stops_.matched()) {
    facts_.finish = Finish::kStopString;
    facts_.stop_string = stops_.match();
    return false;
  }
  return true;
}

void Answer::feed(TokenId token) {
  if (reply_) {
    pass(reply_->push(token));
  } else {
    say(stops_.push(decoder_->push(token)));
  }
}

void Answer::pass(std::vector<ReplyEvent> events) {
  for (ReplyEvent& event : events) {
    if (over_) return;
    if (!parallel_calls_ && event.call > 0) continue;
    switch (event.kind) {
      case ReplyEvent::Kind::kReasoning:
        generation_->push({Kind::kReasoning, index_, -1, std::move(event.text)});
        break;
      case ReplyEvent::Kind::kContent:
        say(stops_.push(event.text));
        break;
      case ReplyEvent::Kind::kCallBegin:
        say(stops_.flush());  // content before a call is complete
        generation_->push({Kind::kCallBegin, index_, event.call, std::move(event.text)});
        break;
      case ReplyEvent::Kind::kCallArguments:
        generation_->push({Kind::kCallArguments, index_, event.call, std::move(event.text)});
        break;
      case ReplyEvent::Kind::kCallEnd:
        called_ = true;
        generation_->push({Kind::kCallEnd, index_, event.call});
        break;
      case ReplyEvent::Kind::kCallsRejected:
        generation_->push({Kind::kCallsRejected, index_});
        break;
    }
  }
}

void Answer::say(std::string text) {
  if (text.empty() || over_) return;
  generation_->push({Kind::kContent, index_, -1, std::move(text), std::move(records_)});
  records_.clear();
  over_ = stops_.matched();
}

// What was held back, as the end of the text makes it certain.
void Answer::finish_text() {
  if (over_) return;
  if (reply_) {
    pass(reply_->finish());
  } else {
    say(stops_.push(decoder_->flush()));
  }
  say(stops_.flush());
  calls_ended_ = called_;
  if (called_) facts_.finish = Finish::kCalls;
  if (stops_.matched()) {
    facts_.finish = Finish::kStopString;
    facts_.stop_string = stops_.match();
  }
  over_ = true;
}

void Answer::on_end(const SequenceSummary& summary) {
  facts_.summary = summary;
  switch (summary.end) {
    case SequenceEnd::kStopped:
      break;
    case SequenceEnd::kLength:
    case SequenceEnd::kContext:
    case SequenceEnd::kCacheFull:
      finish_text();
      if (facts_.finish == Finish::kStop) facts_.finish = Finish::kLength;
      break;
    case SequenceEnd::kCancelled:
      facts_.finish = Finish::kFailed;
      facts_.error = "the request was cancelled";
      break;
    case SequenceEnd::kQueueTimeout:
      facts_.finish = Finish::kFailed;
      facts_.queue_timed_out = true;
      facts_.error = "the server is busy: the request waited too long for its turn";
      break;
    case SequenceEnd::kTimeout:
      facts_.finish = Finish::kFailed;
      facts_.timed_out = true;
      facts_.error = "the request took longer than this server's time limit";
      break;
    case SequenceEnd::kShutdown:
      facts_.finish = Finish::kFailed;
      facts_.shutdown = true;
      facts_.error = "the server is shutting down";
      break;
    case SequenceEnd::kFailed:
      facts_.finish = Finish::kFailed;
      facts_.error = summary.message;
      break;
  }
  generation_->push_end(index_, std::move(facts_));
}

}  // namespace seekline::serve
