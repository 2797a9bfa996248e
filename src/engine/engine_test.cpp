#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/limits.h"
#include "engine/fake_runner.h"

namespace reprise {
namespace {

using namespace std::chrono_literals;

constexpr int kVocabulary = 32;

// Collects one request's events; any thread may wait for the end.
class Client {
 public:
  EventSink sink() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex_);
      if (const auto* token = std::get_if<SampledToken>(&event.what))
        tokens_.push_back(token->id);
      else
        finishes_.push_back(std::get<Finish>(event.what));
      changed_.notify_all();
    };
  }
  Finish wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, 30s, [&] { return !finishes_.empty(); }));
    return finishes_.empty() ? Finish{} : finishes_.front();
  }
  void wait_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, 30s, [&] { return tokens_.size() >= count; }));
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  std::size_t finish_count() {
    const std::lock_guard lock(mutex_);
    return finishes_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  std::vector<Finish> finishes_;
};

// Holds the engine's thread inside a step until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 30s, [&] { return waiting_; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = false;
  bool open_ = false;
};

FakeRunnerOptions small() {
  FakeRunnerOptions options;
  options.vocabulary = kVocabulary;
  return options;
}

RunnerFactory fake(FakeRunnerOptions options = small()) {
  return [options] { return std::make_unique<FakeRunner>(options); };
}

EngineOptions with_parallel(int parallel) {
  EngineOptions options;
  options.parallel = parallel;
  return options;
}

Request request_of(TokenId first, int prompt, int max_tokens) {
  Request request;
  request.prompt.resize(static_cast<std::size_t>(prompt));
  for (int i = 0; i < prompt; ++i)
    request.prompt[i] = (first + i * 7) % kVocabulary;
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

EngineHealth wait_for_health(const Engine& engine, EngineHealth wanted) {
  for (int i = 0; i < 3000; ++i) {
    if (engine.status().health == wanted) break;
    std::this_thread::sleep_for(10ms);
  }
  return engine.status().health;
}

TEST(Engine, ServesTheReplyThatTheModelGivesAlone) {
  Engine engine(fake(), {});
  ASSERT_TRUE(engine.wait_ready());
  EXPECT_EQ(engine.status().runner.vocabulary, kVocabulary);
  const auto request = request_of(1, 300, 40);
  Client client;
  ASSERT_TRUE(engine.submit(request, client.sink()));
  const auto finish = client.wait();
  EXPECT_EQ(finish.reason, FinishReason::length);
  EXPECT_EQ(client.tokens(), FakeRunner::reply_alone(request, kVocabulary));
  EXPECT_EQ(finish.cache.evaluated_tokens, 300);
  EXPECT_EQ(finish.timings.predicted_n, 40);

  Client again;
  ASSERT_TRUE(engine.submit(request, again.sink()));
  EXPECT_EQ(again.wait().cache.memory_tokens, 299);
  EXPECT_EQ(again.tokens(), client.tokens());
}

TEST(Engine, SaysThatItIsLoading) {
  Gate gate;
  Engine engine(
      [&] {
        gate.pass();
        return std::make_unique<FakeRunner>(small());
      },
      {});
  EXPECT_EQ(engine.status().health, EngineHealth::loading);
  const auto refused = engine.submit(request_of(1, 3, 3), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  gate.open();
  ASSERT_TRUE(engine.wait_ready());
  EXPECT_EQ(engine.status().health, EngineHealth::ready);
}

TEST(Engine, AModelThatCannotBeLoadedIsAFailureWithItsReason) {
  Engine engine(
      []() -> std::unique_ptr<Runner> {
        throw std::runtime_error("config.json is empty");
      },
      {});
  const auto ready = engine.wait_ready();
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().message, "config.json is empty");
  EXPECT_EQ(engine.status().health, EngineHealth::failed);
  const auto refused = engine.submit(request_of(1, 3, 3), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  EXPECT_NE(refused.error().message.find("config.json"), std::string::npos);
}

TEST(Engine, RefusesWhatCanNeverBeServed) {
  auto options = small();
  options.block_count = 2;
  Engine engine(fake(options), {});
  ASSERT_TRUE(engine.wait_ready());
  const auto error_of = [&](Request request) {
    const auto result = engine.submit(std::move(request), {});
    return result ? Error{} : result.error();
  };
  EXPECT_EQ(error_of(request_of(1, 0, 3)).kind, ErrorKind::invalid);
  EXPECT_EQ(error_of(request_of(1, 3, -1)).kind, ErrorKind::invalid);
  const auto long_one = error_of(request_of(1, 4000, 200));
  EXPECT_EQ(long_one.kind, ErrorKind::too_large);
  EXPECT_EQ(long_one.code, "context_length_exceeded");
  EXPECT_NE(long_one.message.find("4200"), std::string::npos);
  EXPECT_NE(long_one.message.find("513"), std::string::npos);
  const auto pool = error_of(request_of(1, 500, 14));
  EXPECT_EQ(pool.kind, ErrorKind::too_large);
  EXPECT_NE(pool.message.find("513"), std::string::npos) << pool.message;
  auto bad = request_of(1, 3, 3);
  bad.prompt[1] = kVocabulary;
  EXPECT_NE(error_of(bad).message.find("32"), std::string::npos);
  bad.prompt[1] = -1;
  EXPECT_EQ(error_of(bad).kind, ErrorKind::invalid);

  Client fits;  // the last token needs no row: 512 rows are two blocks
  ASSERT_TRUE(engine.submit(request_of(1, 500, 13), fits.sink()));
  EXPECT_EQ(fits.wait().reason, FinishReason::length);
}

TEST(Engine, TheContextIsTheSmallestOfOptionModelAndMemory) {
  const auto context_with = [](int option, int blocks) {
    auto runner = small();
    runner.context_tokens = 2048;
    runner.block_count = blocks;
    EngineOptions options;
    options.context_tokens = option;
    Engine engine(fake(runner), options);
    const auto ready = engine.wait_ready();
    return ready ? std::to_string(engine.status().runner.context_tokens)
                 : ready.error().message;
  };
  EXPECT_EQ(context_with(0, 100), "2048");
  EXPECT_EQ(context_with(300, 100), "300");
  EXPECT_EQ(context_with(0, 2), "513");
  EXPECT_NE(context_with(4096, 100).find("4096"), std::string::npos);
  EXPECT_NE(context_with(4096, 100).find("2048"), std::string::npos);
  EXPECT_NE(context_with(1024, 2).find("--state-memory"), std::string::npos);
}

TEST(Engine, ACancelledRequestEndsWithinAStep) {
  auto options = small();
  std::atomic<int> steps{0};
  options.during_step = [&] {
    ++steps;
    std::this_thread::sleep_for(1ms);
  };
  Engine engine(fake(options), {});
  ASSERT_TRUE(engine.wait_ready());
  Client client;
  const auto id = engine.submit(request_of(1, 10, 3000), client.sink());
  ASSERT_TRUE(id);
  client.wait_tokens(3);
  engine.cancel(*id);
  engine.cancel(*id + 1000);  // unknown
  EXPECT_EQ(client.wait().reason, FinishReason::cancelled);
  EXPECT_LT(client.tokens().size(), 3000u);
  const int then = steps;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(steps, then) << "it costs nothing any more";
  EXPECT_EQ(client.finish_count(), 1u);
}

TEST(Engine, DestructionEndsEveryRequestOnce) {
  Client running, waiting, unread;
  Gate gate;
  auto options = small();
  options.during_step = [&] { gate.pass(); };
  {
    Engine engine(fake(options), with_parallel(1));
    ASSERT_TRUE(engine.wait_ready());
    ASSERT_TRUE(engine.submit(request_of(1, 10, 100), running.sink()));
    ASSERT_TRUE(engine.submit(request_of(2, 10, 100), waiting.sink()));
    gate.wait_until_reached();
    ASSERT_TRUE(engine.submit(request_of(3, 10, 100), unread.sink()));
    std::thread opener([&] {
      std::this_thread::sleep_for(20ms);
      gate.open();
    });
    opener.detach();
  }
  for (Client* client : {&running, &waiting, &unread}) {
    EXPECT_EQ(client->wait().reason, FinishReason::cancelled);
    EXPECT_EQ(client->finish_count(), 1u);
  }
}

TEST(Engine, TheInboxIsBounded) {
  Gate gate;
  auto options = small();
  options.during_step = [&] { gate.pass(); };
  std::vector<std::unique_ptr<Client>> clients;
  Engine engine(fake(options), with_parallel(1));
  ASSERT_TRUE(engine.wait_ready());
  const auto submit = [&] {
    clients.push_back(std::make_unique<Client>());
    return engine.submit(request_of(1, 4, 1), clients.back()->sink());
  };
  ASSERT_TRUE(submit());
  gate.wait_until_reached();
  // The one that runs is not counted out before its step ends.
  for (std::size_t i = 1; i < kInboxRequestsMax; ++i) ASSERT_TRUE(submit());
  const auto refused = submit();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::busy);
  clients.pop_back();
  gate.open();
  for (auto& client : clients)
    EXPECT_EQ(client->wait().reason, FinishReason::length);
  EXPECT_TRUE(submit());
  clients.back()->wait();
}

TEST(Engine, ALongStepIsStuckAndThenReadyAgain) {
  std::atomic<long> seconds{1};
  EngineOptions options;
  options.step_timeout = 60s;
  options.now = [&] {
    return std::chrono::steady_clock::time_point(
        std::chrono::seconds(seconds.load()));
  };
  Gate gate;
  auto fake_options = small();
  fake_options.during_step = [&] { gate.pass(); };
  Client client;
  Engine engine(fake(fake_options), options);
  ASSERT_TRUE(engine.wait_ready());
  ASSERT_TRUE(engine.submit(request_of(1, 4, 2), client.sink()));
  gate.wait_until_reached();
  seconds += 60;
  EXPECT_EQ(engine.status().health, EngineHealth::ready);
  seconds += 1;
  EXPECT_EQ(engine.status().health, EngineHealth::stuck);
  EXPECT_GE(engine.status().seconds_since_heartbeat, 61);
  gate.open();
  EXPECT_EQ(client.wait().timings.prompt_ms, 61'000);
  EXPECT_EQ(wait_for_health(engine, EngineHealth::ready), EngineHealth::ready);
}

TEST(Engine, AReceiverThatBlocksTheEngineIsStuck) {
  std::atomic<long> seconds{1};
  EngineOptions options;
  options.step_timeout = 1s;
  options.now = [&] {
    return std::chrono::steady_clock::time_point(
        std::chrono::seconds(seconds.load()));
  };
  Gate gate;
  Client client;
  Engine engine(fake(), options);
  ASSERT_TRUE(engine.wait_ready());
  ASSERT_TRUE(engine.submit(request_of(1, 4, 1), [&](const Event& event) {
    gate.pass();
    client.sink()(event);
  }));
  gate.wait_until_reached();
  EXPECT_EQ(engine.status().health, EngineHealth::ready);
  seconds += 3;
  EXPECT_EQ(engine.status().health, EngineHealth::stuck);
  gate.open();
  client.wait();
  EXPECT_EQ(wait_for_health(engine, EngineHealth::ready), EngineHealth::ready);
}

TEST(Engine, AnIdleEngineStaysReady) {
  Engine engine(fake(), {});
  ASSERT_TRUE(engine.wait_ready());
  double oldest = 0;
  for (int i = 0; i < 24; ++i) {
    std::this_thread::sleep_for(100ms);
    const auto status = engine.status();
    EXPECT_EQ(status.health, EngineHealth::ready);
    oldest = std::max(oldest, status.seconds_since_heartbeat);
  }
  EXPECT_LT(oldest, 2.0);
}

TEST(Engine, AnExceptionThatIsNoExceptionEndsOneRequest) {
  auto options = small();
  options.throws_at_row = [](const StepRow& row) -> bool {
    if (row.id == 1) throw 42;
    return false;
  };
  Engine engine(fake(options), {});
  ASSERT_TRUE(engine.wait_ready());
  Client broken, fine;
  ASSERT_TRUE(engine.submit(request_of(1, 70, 5), broken.sink()));
  const auto request = request_of(2, 70, 5);
  ASSERT_TRUE(engine.submit(request, fine.sink()));
  EXPECT_EQ(broken.wait().reason, FinishReason::error);
  EXPECT_FALSE(broken.wait().error.empty());
  EXPECT_EQ(fine.wait().reason, FinishReason::length);
  EXPECT_EQ(fine.tokens(), FakeRunner::reply_alone(request, kVocabulary));
}

TEST(Engine, ManyThreadsSubmitAndCancel) {
  Engine engine(fake(), with_parallel(8));
  ASSERT_TRUE(engine.wait_ready());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const auto request = request_of(t, 20 + 13 * (i % 7), 1 + i);
        Client client;
        const auto id = engine.submit(request, client.sink());
        if (i % 3 == 0) engine.cancel(*id);
        (void)engine.status();
        const auto finish = client.wait();
        const auto alone = FakeRunner::reply_alone(request, kVocabulary);
        const auto tokens = client.tokens();
        const bool prefix =
            tokens.size() <= alone.size() &&
            std::equal(tokens.begin(), tokens.end(), alone.begin());
        const bool whole =
            finish.reason == FinishReason::cancelled || tokens == alone;
        if (!prefix || !whole) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace reprise
