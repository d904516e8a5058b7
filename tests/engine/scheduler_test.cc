// The scheduler: what a sequence answers is what it answers alone, whatever happens around it.
#include "engine/scheduler.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <random>

#include "engine/golden_model.h"
#include "engine/sampler.h"
#include "seekline/session.h"

namespace seekline::golden {
namespace {

// What happened, in order, on the scheduler's thread.
struct Happening {
  enum class Kind { kStart, kPrompt, kToken, kEnd } kind;
  int who;
  std::int64_t value;
};

struct Journal {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Happening> list;

  void add(Happening happening) {
    const std::lock_guard lock(mutex);
    list.push_back(happening);
    changed.notify_all();
  }
  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), [&] { return condition(list); });
  }
};

class Recorder : public SequenceClient {
 public:
  Recorder(Journal& journal, int who) : journal_(journal), who_(who) {}
  void on_start(const ReuseReport& report) override {
    reports.push_back(report);
    journal_.add({Happening::Kind::kStart, who_, report.reused_tokens});
  }
  void on_prompt(std::int64_t done) override { journal_.add({Happening::Kind::kPrompt, who_, done}); }
  void on_cache(std::span<const std::int64_t> bytes) override {
    cache_bytes.push_back(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
  }
  std::span<const std::uint8_t> allowed() override { return mask; }
  bool on_token(const Choice& choice) override {
    tokens.push_back(choice.token);
    logprobs.push_back(choice.logprob);
    journal_.add({Happening::Kind::kToken, who_, choice.token});
    return stop_after == 0 || tokens.size() < stop_after;
  }
  void on_end(const SequenceSummary& s) override {
    summary = s;
    journal_.add({Happening::Kind::kEnd, who_, static_cast<int>(s.end)});
  }

  std::vector<ReuseReport> reports;
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::uint8_t> mask;
  std::vector<std::int64_t> cache_bytes;
  std::size_t stop_after = 0;
  SequenceSummary summary;

 private:
  Journal& journal_;
  int who_;
};

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

Answer alone(const std::shared_ptr<Model>& model, const SequenceRequest& request) {
  Session session(model);
  Sampler sampler(request.sampling);
  Answer answer;
  session.prompt(request.prompt);
  while (static_cast<std::int64_t>(answer.tokens.size()) < request.max_tokens) {
    const Choice choice =
        sampler.choose(session.logits(), request.prompt, answer.tokens, request.top_logprobs);
    answer.tokens.push_back(choice.token);
    answer.logprobs.push_back(choice.logprob);
    session.extend(choice.token);
  }
  return answer;
}

Answer answer_of(const Recorder& recorder) { return {recorder.tokens, recorder.logprobs}; }

std::shared_ptr<Model> open_limited(const std::string& name, std::int64_t batch_tokens,
                                    std::int64_t pages = 0) {
  ModelOptions options;
  options.threads = 1;
  options.batch_tokens = batch_tokens;
  if (pages > 0) options.cache_limit_bytes = pages * page_bytes_at(open_model(name, {})->pages(), 1);
  return Model::open(model_folder(name), options);
}

SequenceRequest request_of(std::mt19937& random, const Model& model, std::size_t tokens,
                           std::int64_t max_tokens) {
  SequenceRequest request;
  for (std::size_t i = 0; i < tokens; ++i)
    request.prompt.push_back(
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(model.vocab_size())));
  request.max_tokens = max_tokens;
  return request;
}

std::shared_ptr<PrefixCache> live(Model& model) {
  return std::make_shared<PrefixCache>(model.pages(), model.options().decoder);
}

bool all_ended(const std::vector<Happening>& list, std::int64_t count) {
  return std::count_if(list.begin(), list.end(),
                       [](const Happening& h) { return h.kind == Happening::Kind::kEnd; }) >= count;
}

// Sequences of mixed lengths and samplings through one scheduler, against each alone.
void expect_answers_of_alone(const std::string& name, std::int64_t batch_tokens,
                             const SchedulerOptions& options) {
  const std::shared_ptr<Model> model = open_limited(name, batch_tokens);
  const std::shared_ptr<Model> reference = open_model(name, {});
  std::mt19937 random(11);
  Journal journal;
  std::vector<SequenceRequest> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 9; ++i) {
    requests.push_back(request_of(random, *model, 1 + random() % 90, 5 + 3 * i));
    requests.back().sampling.temperature = i % 3 == 0 ? 0.0f : 1.0f;
    requests.back().sampling.seed = static_cast<std::uint64_t>(i);
    requests.back().sampling.top_p = i % 2 == 0 ? 1.0f : 0.9f;
    requests.back().sampling.frequency_penalty = i == 4 ? 1.0f : 0.0f;
    recorders.push_back(std::make_shared<Recorder>(journal, i));
  }
  {
    Scheduler scheduler(model, live(*model), options);
    for (std::size_t i = 0; i < requests.size(); ++i) scheduler.submit(requests[i], recorders[i]);
    ASSERT_TRUE(journal.wait([&](const auto& list) { return all_ended(list, 9); }));
    EXPECT_EQ(scheduler.stats().preempted, 0);
    ASSERT_TRUE(scheduler.wait_idle(std::chrono::seconds(5)));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(recorders[i]->summary.end, SequenceEnd::kLength) << recorders[i]->summary.message;
    EXPECT_TRUE(answer_of(*recorders[i]) == alone(reference, requests[i])) << name << " sequence " << i;
  }
  EXPECT_EQ(model->pages().used_bytes(), 0);
}

TEST(Scheduler, SequencesServedTogetherAnswerAsEachDoesAlone) {
  for (const std::string name : {"llama-gqa-tiny", "v41-tiny"}) {
    expect_answers_of_alone(name, 64, {});
    SchedulerOptions narrow;
    narrow.max_running = 3;
    narrow.chunk_beside = 5;
    expect_answers_of_alone(name, 16, narrow);
  }
}

TEST(Scheduler, APreemptedSequenceGoesOnAsIfNothingHadHappened) {
  // Prompts end shortly before a page of 256 tokens does, so that all need a second page at about the same
  // time.
  const std::string name = "llama-gqa-tiny";
  const std::shared_ptr<Model> model = open_limited(name, 128, 5);
  const std::shared_ptr<Model> reference = open_model(name, {});
  std::mt19937 random(5);
  Journal journal;
  std::vector<SequenceRequest> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  SchedulerOptions options;
  Scheduler scheduler(model, live(*model), options);
  for (std::size_t i = 0; i < 4; ++i) {
    requests.push_back(request_of(random, *model, 240 + i, 400));
    requests.back().sampling.seed = i;
    recorders.push_back(std::make_shared<Recorder>(journal, static_cast<int>(i)));
    scheduler.submit(requests.back(), recorders.back());
  }
  ASSERT_TRUE(journal.wait([&](const auto& list) { return all_ended(list, 4); }));
  const SchedulerStats stats = scheduler.stats();
  EXPECT_GT(stats.preempted, 0);
  EXPECT_EQ(stats.prompt_tokens, 240 + 241 + 242 + 243);
  EXPECT_EQ(stats.reused_tokens, 0) << "what a preempted sequence finds again is not reuse of its prompt";
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(recorders[i]->summary.end, SequenceEnd::kLength) << recorders[i]->summary.message;
    EXPECT_TRUE(answer_of(*recorders[i]) == alone(reference, requests[i])) << "sequence " << i;
  }
}

TEST(Scheduler, ALongPromptHoldsUpADecodeByOneChunkAtMost) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 64);
  std::mt19937 random(3);
  Journal journal;
  SchedulerOptions options;
  options.chunk_beside = 32;
  Scheduler scheduler(model, live(*model), options);
  const auto decoding = std::make_shared<Recorder>(journal, 0);
  const auto longer = std::make_shared<Recorder>(journal, 1);
  scheduler.submit(request_of(random, *model, 4, 400), decoding);
  ASSERT_TRUE(journal.wait([](const auto& list) { return list.size() > 4; }));
  scheduler.submit(request_of(random, *model, 2000, 2), longer);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 2); }));
  std::int64_t last = 0, chunks_since_token = 0, chunks_beside = 0;
  bool decodes = true;
  for (const Happening& h : journal.list) {
    if (h.who == 0 && h.kind == Happening::Kind::kToken) chunks_since_token = 0;
    if (h.who == 0 && h.kind == Happening::Kind::kEnd) decodes = false;
    if (h.who == 1 && h.kind == Happening::Kind::kPrompt && decodes) {
      EXPECT_LE(h.value - last, 32);
      EXPECT_LE(++chunks_since_token, 1);
      ++chunks_beside;
    }
    if (h.who == 1 && h.kind == Happening::Kind::kPrompt) last = h.value;
  }
  EXPECT_GT(chunks_beside, 20);
}

TEST(Scheduler, PromptsTakeTurnsSoThatAShortOneOvertakesALongOne) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 16);
  std::mt19937 random(3);
  Journal journal;
  Scheduler scheduler(model, live(*model), {});
  const auto longer = std::make_shared<Recorder>(journal, 0);
  const auto brief = std::make_shared<Recorder>(journal, 1);
  scheduler.submit(request_of(random, *model, 1500, 1), longer);
  ASSERT_TRUE(journal.wait([](const auto& list) { return list.size() > 2; }));
  scheduler.submit(request_of(random, *model, 20, 1), brief);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 2); }));
  std::vector<int> ends;
  for (const Happening& h : journal.list)
    if (h.kind == Happening::Kind::kEnd) ends.push_back(h.who);
  EXPECT_EQ(ends, (std::vector<int>{1, 0}));
}

TEST(Scheduler, ACancelledPromptEndsWithinAChunkAndItsWorkServesTheRetry) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 32);
  std::mt19937 random(9);
  Journal journal;
  Scheduler scheduler(model, live(*model), {});
  SequenceRequest request = request_of(random, *model, 3000, 6);
  const auto first = std::make_shared<Recorder>(journal, 0);
  const Scheduler::Id id = scheduler.submit(request, first);
  ASSERT_TRUE(journal.wait([](const auto& list) { return list.size() > 8; }));
  std::int64_t done_at_cancel = 0;
  {
    const std::lock_guard lock(journal.mutex);
    scheduler.cancel(id);  // the scheduler's thread waits for the journal: at most one chunk is under way
    done_at_cancel = journal.list.back().value;
  }
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 1); }));
  EXPECT_EQ(first->summary.end, SequenceEnd::kCancelled);
  EXPECT_LE(first->summary.computed_tokens, done_at_cancel + 2 * 32);
  EXPECT_LT(first->summary.computed_tokens, 3000);
  const auto retry = std::make_shared<Recorder>(journal, 1);
  scheduler.submit(request, retry);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 2); }));
  EXPECT_EQ(retry->reports.at(0).reused_tokens, first->summary.computed_tokens);
  EXPECT_EQ(retry->summary.computed_tokens, 3000 + 5 - first->summary.computed_tokens);
  EXPECT_TRUE(answer_of(*retry) == alone(open_model("llama-gqa-tiny", {}), request));
}

TEST(Scheduler, AConversationThatGoesOnComputesOnlyWhatIsNew) {
  const std::shared_ptr<Model> model = open_limited("v41-tiny", 64);
  std::mt19937 random(21);
  Journal journal;
  Scheduler scheduler(model, live(*model), {});
  SequenceRequest request = request_of(random, *model, 70, 10);
  for (int turn = 0; turn < 4; ++turn) {
    const auto recorder = std::make_shared<Recorder>(journal, turn);
    scheduler.submit(request, recorder);
    ASSERT_TRUE(journal.wait([&](const auto& list) { return all_ended(list, turn + 1); }));
    EXPECT_TRUE(answer_of(*recorder) == alone(open_model("v41-tiny", {}), request)) << "turn " << turn;
    // All of the last turn but the token that was chosen last is there.
    const std::int64_t before = turn == 0 ? 0 : static_cast<std::int64_t>(request.prompt.size()) - 12 - 1;
    EXPECT_EQ(recorder->reports.at(0).reused_tokens, before) << "turn " << turn;
    request.prompt.insert(request.prompt.end(), recorder->tokens.begin(), recorder->tokens.end());
    const SequenceRequest more = request_of(random, *model, 12, 0);
    request.prompt.insert(request.prompt.end(), more.prompt.begin(), more.prompt.end());
  }
}

TEST(Scheduler, RefusesWhatCannotBeServedAndSaysWhy) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 32, 4);
  std::mt19937 random(2);
  Journal journal;
  SchedulerOptions options;
  options.max_waiting = 2;
  options.max_running = 1;
  Scheduler scheduler(model, live(*model), options);
  const auto why = [&](std::size_t tokens) {
    try {
      scheduler.submit(request_of(random, *model, tokens, 1), std::make_shared<Recorder>(journal, 0));
    } catch (const Refused& refused) {
      return static_cast<int>(refused.why());
    }
    return -1;
  };
  EXPECT_EQ(why(4097), static_cast<int>(Refused::Why::kPromptTooLong));
  EXPECT_EQ(why(1100), static_cast<int>(Refused::Why::kCacheTooSmall));
  EXPECT_THROW(scheduler.submit(request_of(random, *model, 0, 1), std::make_shared<Recorder>(journal, 0)),
               Error);
  SequenceRequest alien = request_of(random, *model, 3, 1);
  alien.prompt[1] = 256;
  EXPECT_THROW(scheduler.submit(alien, std::make_shared<Recorder>(journal, 0)), Error);
  // One runs, two wait, the fourth is one too many.
  scheduler.submit(request_of(random, *model, 900, 60), std::make_shared<Recorder>(journal, 0));
  ASSERT_TRUE(journal.wait([](const auto& list) { return !list.empty(); }));
  EXPECT_EQ(why(10), -1);
  EXPECT_EQ(why(10), -1);
  EXPECT_EQ(why(10), static_cast<int>(Refused::Why::kQueueFull));
  scheduler.close();
  EXPECT_EQ(why(10), static_cast<int>(Refused::Why::kShutdown));
  EXPECT_TRUE(scheduler.wait_idle(std::chrono::seconds(60)));
}

TEST(Scheduler, DeadlinesAndTheCacheLimitEndASequenceInTheirOwnWords) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 32, 2);
  std::mt19937 random(2);
  Journal journal;
  SchedulerOptions options;
  options.max_running = 1;
  Scheduler scheduler(model, live(*model), options);
  const auto grows = std::make_shared<Recorder>(journal, 0);
  const auto late = std::make_shared<Recorder>(journal, 1);
  const auto slow = std::make_shared<Recorder>(journal, 2);
  scheduler.submit(request_of(random, *model, 300, 0), grows);
  SequenceRequest impatient = request_of(random, *model, 10, 5);
  impatient.start_by = SequenceRequest::Clock::now();
  scheduler.submit(impatient, late);
  SequenceRequest bounded = request_of(random, *model, 10, 0);
  bounded.end_by = SequenceRequest::Clock::now();
  scheduler.submit(bounded, slow);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 3); }));
  EXPECT_EQ(grows->summary.end, SequenceEnd::kCacheFull);
  EXPECT_EQ(grows->summary.prompt_tokens + grows->summary.generated_tokens, 513);
  EXPECT_EQ(late->summary.end, SequenceEnd::kQueueTimeout);
  EXPECT_TRUE(slow->summary.end == SequenceEnd::kTimeout || slow->summary.end == SequenceEnd::kQueueTimeout);
}

TEST(Scheduler, TheMemoryOfAGrowingCacheIsToldPageByPage) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 64);
  std::mt19937 random(2);
  Journal journal;
  Scheduler scheduler(model, live(*model), {});
  const auto grows = std::make_shared<Recorder>(journal, 0);
  scheduler.submit(request_of(random, *model, 250, 300), grows);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 1); }));
  ASSERT_EQ(grows->cache_bytes.size(), 3U);  // at 64, 257 and 513 tokens
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(grows->cache_bytes[i], page_bytes_at(model->pages(), static_cast<std::int64_t>(i) * 256 + 1));
  const std::vector<std::int64_t>& last = grows->summary.store_bytes;
  EXPECT_EQ(std::accumulate(last.begin(), last.end(), std::int64_t{0}), grows->cache_bytes.back());
}

TEST(Scheduler, OnlyAllowedTokensAreChosenAndTheClientHasTheLastWord) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 32);
  std::mt19937 random(2);
  Journal journal;
  Scheduler scheduler(model, live(*model), {});
  const auto masked = std::make_shared<Recorder>(journal, 0);
  masked->mask.assign(256, 0);
  masked->mask[17] = masked->mask[200] = 1;
  masked->stop_after = 30;
  scheduler.submit(request_of(random, *model, 10, 100), masked);
  ASSERT_TRUE(journal.wait([](const auto& list) { return all_ended(list, 1); }));
  EXPECT_EQ(masked->summary.end, SequenceEnd::kStopped);
  EXPECT_EQ(masked->tokens.size(), 30U);
  for (const std::int32_t token : masked->tokens) EXPECT_TRUE(token == 17 || token == 200) << token;
}

TEST(Scheduler, EndingItEndsWhatRunsAndWhatWaits) {
  const std::shared_ptr<Model> model = open_limited("llama-gqa-tiny", 32);
  std::mt19937 random(2);
  Journal journal;
  std::vector<std::shared_ptr<Recorder>> recorders;
  {
    SchedulerOptions options;
    options.max_running = 2;
    Scheduler scheduler(model, live(*model), options);
    for (int i = 0; i < 5; ++i) {
      recorders.push_back(std::make_shared<Recorder>(journal, i));
      scheduler.submit(request_of(random, *model, 500, 3000), recorders.back());
    }
    ASSERT_TRUE(journal.wait([](const auto& list) { return list.size() > 3; }));
  }
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->summary.end, SequenceEnd::kShutdown);
  EXPECT_EQ(model->pages().used_bytes(), 0);
}

}  // namespace
}  // namespace seekline::golden
