// /health of a real engine, whose runner does what the test says, over HTTP.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "engine/engine.h"
#include "engine/fake_runner.h"
#include "server/routes.h"
#include "server/server_fixture.h"

namespace reprise {
namespace {

using std::chrono::seconds;

// A door that the engine's thread waits at while it is closed.
class Door {
 public:
  void set_open(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};

struct HealthTest : testing::Test {
  Door loading, stepping;
  std::optional<Engine> engine;
  Server server{{.port = 0, .access_log = false}};

  // The engine ends after the server, which uses it.
  ~HealthTest() override {
    loading.set_open(true);
    stepping.set_open(true);
    server.stop(milliseconds(0));
  }

  void start(RunnerFactory factory) {
    ASSERT_TRUE(server.start());
    engine.emplace(std::move(factory),
                   EngineOptions{.step_timeout = milliseconds(200)});
    server.set_model(test_model(), backend_of(*engine));
  }

  RunnerFactory runner() {
    return [this] {
      loading.pass();
      FakeRunnerOptions options;
      options.vocabulary = kTestVocabulary;
      options.during_step = [this] { stepping.pass(); };
      return std::make_unique<FakeRunner>(options);
    };
  }

  RawReply health() {
    RawClient c(server.port());
    c.get("/health");
    return c.reply();
  }

  // Waits for this answer; the last one otherwise.
  RawReply health_becomes(int status, const std::string& word) {
    RawReply last;
    for (int i = 0; i < 250; ++i) {
      last = health();
      if (last.status == status && last.json()["status"] == word) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_EQ(last.status, status) << last.body;
    EXPECT_EQ(last.json()["status"], word);
    return last;
  }
};

TEST_F(HealthTest, LoadingThenOk) {
  loading.set_open(false);
  start(runner());
  for (int i = 0; i < 5; ++i) {
    const auto reply = health();
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.body, R"({"status":"loading"})");
    EXPECT_EQ(RawClient::field(reply.head, "Retry-After"), "1");
  }
  loading.set_open(true);
  health_becomes(200, "ok");
}

TEST_F(HealthTest, AnIdleEngineStaysOk) {
  start(runner());
  health_becomes(200, "ok");
  // Longer than the age at which a heartbeat is too old.
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(health().status, 200);
    std::this_thread::sleep_for(milliseconds(100));
  }
}

TEST_F(HealthTest, AStepThatDoesNotEndIsStuckUntilItDoes) {
  start(runner());
  health_becomes(200, "ok");
  stepping.set_open(false);
  RawClient c(server.port());
  c.post(kCompletionsPath, R"({"prompt": [1, 2], "max_tokens": 2})");
  const auto reply = health_becomes(503, "stuck");
  EXPECT_GE(reply.json()["since_seconds"], 0.2);
  EXPECT_LT(reply.json()["since_seconds"], 5);
  RawClient early(server.port());
  early.post(kCompletionsPath, R"({"prompt": [1]})");
  EXPECT_EQ(early.reply().status, 503) << "nothing is added to a stuck engine";
  stepping.set_open(true);
  EXPECT_EQ(c.reply().status, 200) << "late is not lost";
  health_becomes(200, "ok");
}

TEST_F(HealthTest, StepsThatEndInTimeAreNotStuckHoweverMany) {
  start([] {
    FakeRunnerOptions options;
    options.vocabulary = kTestVocabulary;
    options.latency = milliseconds(20);
    return std::make_unique<FakeRunner>(options);
  });
  health_becomes(200, "ok");
  RawClient c(server.port());
  c.post(kCompletionsPath,
         R"({"prompt": [1], "max_tokens": 60, "ignore_eos": true})");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(health().status, 200);
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_EQ(c.reply().status, 200);
}

TEST_F(HealthTest, AFailureSaysWhy) {
  start([]() -> std::unique_ptr<Runner> {
    throw std::runtime_error("no such weights");
  });
  const auto reply = health_becomes(503, "failed");
  EXPECT_THAT(reply.body, testing::HasSubstr("no such weights"));
}

}  // namespace
}  // namespace reprise
