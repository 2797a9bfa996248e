// A day of an office on one engine: users hold conversations on shared system
// prompts, edit what they said, lose patience, all ask at once at nine and
// nobody at three in the night. The model is fake and knows its history, the
// clock is fake and moves with each step; everything else is the engine's own.
// A failure prints its seed; REPRISE_SEED=n replays it, REPRISE_SOAK=1 lives
// through thirty days.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <queue>
#include <random>
#include <vector>

#include "engine/fake_runner.h"
#include "engine/step_loop.h"
#include "random_source.h"

namespace reprise::sim {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr int kVocabulary = 32;
constexpr int kContext = 1500;
constexpr int kBlocks = 10;
constexpr int kParallel = 6;
constexpr int kUsers = 60;

// Under REPRISE_SHORT, for sanitizers: an hour or two, as crowded.
bool is_short() {
  return std::getenv("REPRISE_SHORT") != nullptr;
}
int request_count() {
  return is_short() ? 600 : 6000;
}
milliseconds day_length() {
  return milliseconds(24 * 3600 * 1000 / (is_short() ? 10 : 1));
}

// What became of one request, and what was to become of it.
struct Record {
  Request request;
  Time submitted;
  std::vector<TokenId> reply;
  int prompt_scores = 0;
  std::vector<Finish> finishes;  // exactly one, in the end
  bool left = false;             // its client went away
  bool doomed = false;
};

struct Sums {
  std::size_t requests = 0;
  std::size_t idles = 0;
  std::size_t left_waiting = 0, left_computing = 0, left_replying = 0;
  std::size_t failed = 0;
  std::size_t stopped = 0;
};

class Day : RandomSource {
 public:
  Day(unsigned seed, int slots)
      : RandomSource(seed, kVocabulary),
        runner_(runner_options(slots)),
        loop_(runner_,
              {.parallel = kParallel,
               .context_tokens = kContext,
               .block_count = kBlocks,
               .slot_count = slots},
              [this] { return now_; }) {
    for (auto& text : system_prompts_) text = random_tokens(between(50, 450));
    wire_the_model();
    plan_arrivals();
  }

  // Lives through it.
  void run() {
    for (int steps = 0; steps < 5'000'000; ++steps) {
      take_due();
      if (loop_.step()) continue;
      check_idle();
      if (agenda_.empty()) return;
      now_ = std::max(now_, agenda_.top().when);
    }
    FAIL() << "the day does not end";
  }

  void check_records() const {
    for (const auto& [id, record] : records_) {
      const auto complaint = complaint_about(record);
      ASSERT_EQ(complaint, "") << "request " << id;
    }
  }

  Sums sums() const {
    Sums sums = sums_;
    sums.requests = records_.size();
    for (const auto& [id, record] : records_) {
      const Finish& finish = record.finishes.at(0);
      sums.failed += finish.reason == FinishReason::error;
      sums.stopped += finish.reason == FinishReason::stop;
      if (finish.reason != FinishReason::cancelled) continue;
      if (!record.reply.empty())
        ++sums.left_replying;
      else if (finish.timings.prompt_ms > 0)
        ++sums.left_computing;
      else
        ++sums.left_waiting;
    }
    return sums;
  }
  SchedulerStatus status() const { return loop_.status(); }

 private:
  struct Entry {
    Time when;
    enum class What { ask, leave } what = What::ask;
    int user = 0;      // ask
    RequestId id = 0;  // leave
    bool operator<(const Entry& other) const { return when > other.when; }
  };
  struct User {
    std::vector<TokenId> conversation;
    RequestId last = 0;  // whose reply belongs to the conversation
  };

  static FakeRunnerOptions runner_options(int slots) {
    FakeRunnerOptions options;
    options.vocabulary = kVocabulary;
    options.context_tokens = kContext;
    options.block_count = kBlocks;
    options.slot_count = slots;
    return options;
  }

  // A step takes 40 ms and a millisecond for each token: at noon the machine
  // is just fast enough. Now and then one fails, and the rows of some
  // requests always do.
  void wire_the_model() {
    auto& options = runner_.options();
    options.throws_at_step = [this](const StepPlan& plan) {
      std::size_t tokens = 0;
      for (const auto& row : plan.rows) tokens += row.tokens.size();
      now_ += milliseconds(40 + static_cast<long>(tokens));
      return plan.rows.size() > 1 && chance(0.002);
    };
    options.throws_at_row = [this](const StepRow& row) {
      return records_.at(row.id).doomed && row.id % 2 == 0;
    };
    options.nan_logits = [this](const StepRow& row) {
      return records_.at(row.id).doomed && row.id % 2 == 1;
    };
  }

  // Most of the day's requests come between nine and six, a few at night, and
  // at times everybody asks the same at once.
  void plan_arrivals() {
    std::normal_distribution<> noon(13.0, 3.0);
    for (int i = 0; i < request_count();) {
      const double hour =
          chance(0.1) ? 24 * uniform() : std::clamp(noon(rng_), 0.0, 23.99);
      const Time when = start_ + milliseconds(static_cast<long>(
                                     hour / 24 * double(day_length().count())));
      const int herd = chance(0.02) ? between(4, 20) : 1;
      for (int k = 0; k < herd; ++k, ++i)
        agenda_.push(
            {.when = when, .user = herd > 1 ? -1 : between(0, kUsers - 1)});
    }
  }

  void take_due() {
    while (!agenda_.empty() && agenda_.top().when <= now_) {
      const Entry entry = agenda_.top();
      agenda_.pop();
      if (entry.what == Entry::What::ask)
        ask(entry.user);
      else
        leave(entry.id);
    }
  }

  // The next turn of a conversation: what came of the last one stands in it.
  std::vector<TokenId> next_prompt(User& user) {
    auto& talk = user.conversation;
    if (user.last != 0) {
      const auto& reply = records_.at(user.last).reply;
      talk.insert(talk.end(), reply.begin(), reply.end());
    }
    if (talk.empty() || talk.size() > kContext - 400 || chance(0.1)) {
      talk = system_prompts_[rng_() % std::size(system_prompts_)];
    } else if (chance(0.1)) {  // the user edits an earlier turn
      talk.resize(
          static_cast<std::size_t>(between(1, static_cast<int>(talk.size()))));
    }
    const auto words = random_tokens(between(1, 120));
    talk.insert(talk.end(), words.begin(), words.end());
    return talk;
  }

  Request request_for(std::vector<TokenId> prompt) {
    Request request;
    request.prompt = std::move(prompt);
    const int room = kContext - static_cast<int>(request.prompt.size());
    const int most = chance(0.1) ? 1200 : 160;  // some are asked for stories
    request.max_tokens = std::min(room, chance(0.02) ? 0 : between(1, most));
    auto& sampling = request.sampling;
    sampling.temperature = chance(0.5) ? 0.0f : 0.8f;
    sampling.seed = rng_();
    if (chance(0.2)) sampling.min_p = 0.1f;
    if (chance(0.2)) sampling.repetition_penalty = 1.2f;
    if (chance(0.1)) sampling.frequency_penalty = 0.5f;
    if (chance(0.1)) sampling.logit_bias = {{between(0, kVocabulary - 1), 3}};
    if (chance(0.5)) request.stop_tokens = {between(0, kVocabulary - 1)};
    if (chance(0.1)) request.min_tokens = between(1, 20);
    if (chance(0.05)) request.prompt_logprobs = 0;
    request.cache_prompt = !chance(0.03);
    return request;
  }

  // user -1: one of a herd that asks the same.
  void ask(int user) {
    const RequestId id = next_id_++;
    std::vector<TokenId> prompt =
        user < 0 ? system_prompts_[0] : next_prompt(users_[user]);
    Record& record = records_[id];
    record.request = request_for(std::move(prompt));
    record.submitted = now_;
    record.doomed = chance(0.01);
    runner_.expect(id, record.request.prompt);
    if (user >= 0) users_[user].last = id;
    // Sinks get everything of the request, in order.
    loop_.add({.id = id,
               .request = record.request,
               .sink = [this, id](const Event& event) { hear(id, event); },
               .submitted = now_});
    if (chance(0.15))
      agenda_.push({.when = now_ + milliseconds(between(0, 4000)),
                    .what = Entry::What::leave,
                    .id = id});
  }

  void leave(RequestId id) {
    Record& record = records_.at(id);
    if (!record.finishes.empty()) return;
    record.left = true;
    loop_.cancel(id);
  }

  void hear(RequestId id, const Event& event) {
    Record& record = records_.at(id);
    EXPECT_TRUE(record.finishes.empty()) << id << " speaks after its end";
    if (const auto* token = std::get_if<SampledToken>(&event.what)) {
      record.reply.push_back(token->id);
    } else if (const auto* part = std::get_if<PromptLogprobs>(&event.what)) {
      EXPECT_EQ(part->start, record.prompt_scores + 1) << id;
      record.prompt_scores += static_cast<int>(part->tokens.size());
    } else {
      record.finishes.push_back(std::get<Finish>(event.what));
    }
  }

  // StepLoop has checked the scheduler's books; these are the day's own.
  void check_idle() {
    ++sums_.idles;
    const auto status = loop_.status();
    ASSERT_EQ(status.running + status.waiting, 0);
    ASSERT_EQ(status.blocks_held, 0);
    ASSERT_EQ(status.blocks_free + status.blocks_cached, kBlocks);
    for (; checked_ < next_id_; ++checked_)
      ASSERT_EQ(records_.at(checked_).finishes.size(), 1u) << checked_;
  }

  std::string complaint_about(const Record& record) const {
    const Finish& finish = record.finishes.at(0);
    const Request& request = record.request;
    if (finish.reason == FinishReason::error)
      return record.doomed ? "" : "it failed, and is innocent: " + finish.error;
    if ((finish.reason == FinishReason::cancelled) != record.left)
      return "it was cancelled, and its client was there";
    const auto alone = FakeRunner::reply_alone(request, kVocabulary);
    const bool right = record.left
                           ? record.reply.size() <= alone.size() &&
                                 std::equal(record.reply.begin(),
                                            record.reply.end(), alone.begin())
                           : record.reply == alone;
    if (!right) return "its reply is not the one it has alone";
    const int prompt = static_cast<int>(request.prompt.size());
    if (!record.left && request.prompt_logprobs &&
        record.prompt_scores != prompt - 1)
      return "log-probabilities are missing";
    const int sum = finish.cache.memory_tokens + finish.cache.evaluated_tokens;
    if (record.left ? sum > prompt : sum != prompt)
      return "cached and evaluated tokens are not the prompt";
    const Timings& t = finish.timings;
    if (t.queue_ms < 0 || t.prompt_ms < 0 || t.predicted_ms < 0 ||
        t.predicted_n != static_cast<int>(record.reply.size()))
      return "its times are wrong";
    return {};
  }

  const Time start_{};
  Time now_{};
  std::vector<TokenId> system_prompts_[4];
  std::map<int, User> users_;
  std::map<RequestId, Record> records_;
  RequestId next_id_ = 1;
  RequestId checked_ = 1;
  std::priority_queue<Entry> agenda_;
  Sums sums_;
  FakeRunner runner_;
  StepLoop loop_;
};

void live_through(unsigned seed, int slots) {
  SCOPED_TRACE(testing::Message() << "REPRISE_SEED=" << seed);
  SeedOnAbort::set(static_cast<int>(seed));
  Day day(seed, slots);
  ASSERT_NO_THROW(day.run());
  if (testing::Test::HasFatalFailure()) return;
  day.check_records();
  const Sums sums = day.sums();
  const auto status = day.status();
  std::printf(
      "day %u, %d slots: %zu requests, %zu idle moments, %zu left waiting, %zu "
      "computing, "
      "%zu replying, %zu failed; %zu of %zu prompt tokens reused, %zu blocks "
      "evicted, %zu preemptions, %zu steps\n",
      seed, slots, sums.requests, sums.idles, sums.left_waiting,
      sums.left_computing, sums.left_replying, sums.failed,
      status.cached_tokens, status.prompt_tokens, status.blocks_evicted,
      status.preemptions, status.steps);
  if (is_short()) return;
  // What the day is about did happen.
  EXPECT_GE(sums.requests, 5000u);
  EXPECT_GT(sums.idles, 500u);
  EXPECT_GT(sums.left_waiting + sums.left_computing, 20u);
  EXPECT_GT(sums.left_replying, 50u);
  EXPECT_GT(sums.failed, 10u);
  EXPECT_GT(status.blocks_evicted, 1000u);
  EXPECT_GT(status.preemptions, 0u);
  EXPECT_GT(status.cached_tokens, status.prompt_tokens / 10);
}

// slots: snapshots that the model keeps, 0: its state can be cut anywhere.
class SimulatedDay : public testing::TestWithParam<int> {};

TEST_P(SimulatedDay, EveryRequestEndsOnceAndAsAlone) {
  const SeedOnAbort teller;
  unsigned first = 1, count = 1;
  if (const char* seed = std::getenv("REPRISE_SEED"))
    first = static_cast<unsigned>(std::atoi(seed));
  else if (std::getenv("REPRISE_SOAK") != nullptr)
    count = 30;
  for (unsigned seed = first; seed < first + count; ++seed) {
    live_through(seed, GetParam());
    if (testing::Test::HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SimulatedDay, testing::Values(0, 20),
                         [](const auto& info) {
                           return info.param == 0 ? "RowsOnly" : "Snapshots";
                         });

}  // namespace
}  // namespace reprise::sim
