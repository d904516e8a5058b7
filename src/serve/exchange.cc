#include "serve/exchange.h"

#include "serve/client_stream.h"

#include <fmt/format.h>

namespace seekline::serve {
namespace {

// Comments about the progress of a prompt, at most one in this time.
constexpr std::chrono::milliseconds kProgressPace{1000};

double seconds_between(Exchange::Clock::time_point a, Exchange::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

bool is_piece(GenerationEvent::Kind kind) {
  using Kind = GenerationEvent::Kind;
  return kind != Kind::kStart && kind != Kind::kProgress && kind != Kind::kCache && kind != Kind::kEnd;
}

}  // namespace

Exchange::Exchange(Parts parts, GoneWatch& watch, Log& log, Metrics& metrics,
                   std::chrono::milliseconds keep_alive)
    : parts_(std::move(parts)),
      watch_(watch),
      log_(log),
      metrics_(metrics),
      keep_alive_(keep_alive),
      last_write_(Clock::now()) {
  if (const ClientStream* stream = ClientStream::current()) {
    socket_ = stream->socket();
    watch_.add(socket_, [generation = parts_.generation] { generation->cancel(); });
  }
}

Exchange::~Exchange() {
  if (socket_ >= 0) watch_.remove(socket_);
  parts_.generation->cancel();
  const double seconds = seconds_between(parts_.arrived, Clock::now());
  const TokenCounts counts = count_tokens(parts_.call.spec, parts_.generation->outcomes());
  ChatJson line{{"id", parts_.request_id},
                {"path", parts_.path},
                {"status", status_},
                {"seconds", seconds},
                {"stream", parts_.call.streams},
                {"prompt_tokens", counts.prompt},
                {"cached_tokens", counts.cached},
                {"completion_tokens", counts.completion}};
  if (first_piece_seconds_) line["first_token_seconds"] = *first_piece_seconds_;
  if (!finished_) line["client_gone"] = true;
  const ChoiceOutcome* choice = failed();
  if (choice && finished_) line["error"] = choice->error;
  log_.write(choice && finished_ ? LogLevel::kWarning : LogLevel::kInfo, "generation", line);
  metrics_.count_request(parts_.path, status_);
  metrics_.observe_request(seconds);
}

const ChoiceOutcome* Exchange::failed() const {
  for (const ChoiceOutcome& outcome : parts_.generation->outcomes())
    if (outcome.ended && outcome.finish == Finish::kFailed) return &outcome;
  return nullptr;
}

void Exchange::take(const GenerationEvent& event) {
  if (is_piece(event.kind)) {
    const Clock::time_point now = Clock::now();
    if (first_piece_seconds_) {
      metrics_.observe_gap(seconds_between(last_piece_, now));
    } else {
      first_piece_seconds_ = seconds_between(parts_.arrived, now);
      metrics_.observe_first_token(*first_piece_seconds_);
    }
    last_piece_ = now;
  }
  if (event.kind == GenerationEvent::Kind::kProgress) {
    const GenerationSpec& spec = parts_.call.spec;
    const auto& prompt = spec.prompts[static_cast<std::size_t>(event.choice / spec.n)];
    progress_ = fmt::format(": prompt {}/{}\n\n", event.prompt_done, prompt.size());
  }
  if (parts_.call.streams) parts_.call.renderer->render(event, parts_.generation->outcomes(), out_);
}

bool Exchange::wait(Clock::time_point deadline) {
  while (const auto event = parts_.generation->next(deadline)) take(*event);
  return parts_.generation->done();
}

void Exchange::answer(httplib::Response& response) {
  std::string body;
  if (const ChoiceOutcome* choice = failed()) {
    const ApiError error = failure_of(*choice);
    status_ = error.status();
    if (error.retry_after() > 0) response.set_header("Retry-After", std::to_string(error.retry_after()));
  }
  response.status = status_;
  body = last_words();
  finished_ = true;
  response.set_content(body, "application/json");
}

// The end of a stream, or the whole of an answer that does not stream.
std::string Exchange::last_words() {
  Renderer& renderer = *parts_.call.renderer;
  const auto& outcomes = parts_.generation->outcomes();
  if (const ChoiceOutcome* choice = failed()) {
    const ApiError error = failure_of(*choice);
    if (parts_.call.streams) {
      std::string out;
      renderer.fail(error, out);
      return out;
    }
    return to_text(parts_.style == ApiStyle::kAnthropic ? anthropic_error(error, parts_.request_id)
                                                        : openai_error(error));
  }
  if (!parts_.call.streams) return to_text(renderer.body(outcomes));
  std::string out;
  renderer.finish(outcomes, out);
  return out;
}

bool Exchange::pump(httplib::DataSink& sink) {
  try {
    return send_next(sink);
  } catch (const std::exception& error) {  // the library would let it end the process
    log_.write(LogLevel::kError, "answer", {{"id", parts_.request_id}, {"error", error.what()}});
    return false;
  }
}

// What a client hears that would otherwise wait in silence: comments, or blanks before JSON.
std::string Exchange::sign_of_life() {
  if (!parts_.call.streams) return "\n";
  return progress_.empty() ? ": keep-alive\n\n" : std::exchange(progress_, {});
}

bool Exchange::send_next(httplib::DataSink& sink) {
  const Clock::time_point silent_until = last_write_ + keep_alive_;
  // Whatever else is there by then goes in the same piece.
  for (auto event = parts_.generation->next(silent_until); event;
       event = parts_.generation->next(Clock::now()))
    take(*event);
  const bool done = parts_.generation->done();
  if (done) out_ += last_words();
  const Clock::time_point now = Clock::now();
  const bool tells_progress = parts_.call.streams && !progress_.empty() && now >= last_write_ + kProgressPace;
  if (out_.empty() && (now >= silent_until || tells_progress)) out_ = sign_of_life();
  if (!sink.is_writable()) return false;
  if (!out_.empty()) {
    if (!sink.write(out_.data(), out_.size())) return false;
    last_write_ = Clock::now();
    out_.clear();
  }
  if (done) {
    finished_ = true;
    sink.done();
  }
  return true;
}

}  // namespace seekline::serve
