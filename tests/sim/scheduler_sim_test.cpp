// Random traffic over the scheduler and a fake model that knows its history.
// Every seed is a world of its own; REPRISE_SOAK=1 runs a hundred times as
// many, REPRISE_SEED=n one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "base/limits.h"
#include "random_source.h"
#include "sim_world.h"

namespace reprise::sim {
namespace {

constexpr int kVocabulary = 32;

struct Traffic {
  int requests = 10;
  int block_count = 12;
  int slot_count = 0;
  int parallel = 4;
  int context_tokens = 1500;
  int reply_max = 300;
  double cancel = 0.05;  // chance of a cancel before a step
  double glitch = 0.02;  // chance that a step throws, whoever is in it
  double doomed = 0.1;   // chance that a request's rows always fail
  double no_cache = 0.15;
};

class RandomTraffic : RandomSource {
 public:
  RandomTraffic(unsigned seed, const Traffic& traffic)
      : RandomSource(seed, kVocabulary), traffic_(traffic) {
    for (auto& text : texts_) text = random_tokens(700);
  }

  void run(SimWorld& world) {
    wire_faults(world);
    RequestId next = 1;
    int idle = 0;
    for (int i = 0; i < 200'000; ++i) {
      if (next <= static_cast<RequestId>(traffic_.requests) &&
          (idle > 0 || chance(0.1))) {
        add(world, next++);
        idle = 0;
      }
      if (next > 1 && chance(traffic_.cancel / 10))
        world.cancel(1 + rng_() % (next - 1));
      if (!world.step()) {
        if (next > static_cast<RequestId>(traffic_.requests)) return;
        ++idle;
      }
    }
    FAIL() << "it does not come to an end";
  }

 private:
  void wire_faults(SimWorld& world) {
    world.runner().options().throws_at_step = [this](const StepPlan&) {
      return chance(traffic_.glitch);
    };
    world.runner().options().throws_at_row = [this](const StepRow& row) {
      return doomed_.contains(row.id) && row.id % 2 == 0;
    };
    world.runner().options().nan_logits = [this](const StepRow& row) {
      return doomed_.contains(row.id) && row.id % 2 == 1;
    };
  }

  // A new conversation on one of a few system prompts, an earlier prompt
  // again, or an earlier one with its reply and more.
  std::vector<TokenId> random_prompt(const SimWorld& world) {
    std::vector<TokenId> prompt;
    if (!earlier_.empty() && chance(0.4)) {
      prompt = earlier_[rng_() % earlier_.size()];
    } else {
      const auto& text = texts_[rng_() % std::size(texts_)];
      const std::vector<int> cuts = {1, 63, 64, 255, 256, 257, 400, 512, 700};
      prompt.assign(text.begin(), text.begin() + cuts[rng_() % cuts.size()]);
    }
    if (chance(0.8)) {
      const auto more = random_tokens(between(1, 200));
      prompt.insert(prompt.end(), more.begin(), more.end());
    }
    prompt.resize(std::min<std::size_t>(
        prompt.size(), static_cast<std::size_t>(traffic_.context_tokens) / 2));
    return prompt;
  }

  void add(SimWorld& world, RequestId id) {
    Request request;
    request.prompt = random_prompt(world);
    request.sampling.temperature = chance(0.5) ? 0.0f : 1.0f;
    request.sampling.seed = rng_();
    request.max_tokens = std::min(
        between(1, traffic_.reply_max),
        traffic_.context_tokens - static_cast<int>(request.prompt.size()));
    if (chance(0.3)) request.stop_tokens = {between(0, kVocabulary - 1)};
    request.cache_prompt = !chance(traffic_.no_cache);
    const int size = static_cast<int>(request.prompt.size());
    while (request.marks.size() < kMarksMax && chance(0.5)) {
      const int last = request.marks.empty() ? 0 : request.marks.back();
      if (last + 1 >= size) break;
      request.marks.push_back(between(last + 1, size - 1));
    }
    const auto added = world.add(id, request);
    if (!added) {
      // The one "no" of this world: more than the whole pool.
      EXPECT_EQ(added.error().kind, ErrorKind::too_large);
      return;
    }
    if (chance(traffic_.doomed)) {
      doomed_.insert(id);
      world.outcomes().at(id).doomed = true;
    }
    auto whole = request.prompt;
    const auto reply = FakeRunner::reply_alone(request, kVocabulary);
    whole.insert(whole.end(), reply.begin(), reply.end());
    earlier_.push_back(chance(0.5) ? whole : request.prompt);
  }

  const Traffic traffic_;
  std::vector<TokenId> texts_[3];
  std::vector<std::vector<TokenId>> earlier_;
  std::set<RequestId> doomed_;
};

// Over all seeds of a test: that what it is about did happen.
struct Sums {
  std::size_t preemptions = 0;
  std::size_t evictions = 0;
  std::size_t failed_steps = 0;
  std::size_t cached_tokens = 0;
  std::size_t copied_rows = 0;
};

void run_world(int seed, const Traffic& traffic, Sums& sums) {
  SCOPED_TRACE(testing::Message() << "REPRISE_SEED=" << seed);
  SeedOnAbort::set(seed);
  SimWorld world({.parallel = traffic.parallel,
                  .context_tokens = traffic.context_tokens,
                  .block_count = traffic.block_count,
                  .slot_count = traffic.slot_count},
                 kVocabulary);
  try {
    RandomTraffic(static_cast<unsigned>(seed), traffic).run(world);
  } catch (const std::exception& e) {
    FAIL() << e.what();
  }
  // A glitch that hits a row alone cannot be told from the row's own fault.
  for (auto& [id, outcome] : world.outcomes())
    outcome.doomed |= outcome.finish && outcome.finish->error.find(
                                            "this step") != std::string::npos;
  EXPECT_EQ(world.complaint(), "");
  const auto status = world.scheduler().status();
  sums.preemptions += status.preemptions;
  sums.evictions += status.blocks_evicted;
  sums.failed_steps += status.steps_failed;
  sums.cached_tokens += status.cached_tokens;
  sums.copied_rows += world.runner().rows_copied();
}

Sums run_worlds(int count, const Traffic& traffic) {
  Sums sums;
  const SeedOnAbort teller;
  int first = 1;
  if (const char* seed = std::getenv("REPRISE_SEED")) {
    first = std::atoi(seed);
    count = 1;
  } else if (std::getenv("REPRISE_SOAK") != nullptr) {
    count *= 100;
  } else if (std::getenv("REPRISE_SHORT") != nullptr) {
    count = (count + 4) / 5;
  }
  for (int seed = first; seed < first + count; ++seed) {
    run_world(seed, traffic, sums);
    if (testing::Test::HasFailure()) break;
  }
  return sums;
}

// Sums over one chosen seed, or a few, say nothing.
bool many_seeds() {
  return std::getenv("REPRISE_SEED") == nullptr &&
         std::getenv("REPRISE_SHORT") == nullptr;
}

TEST(SchedulerSim, RoomyPoolWithFaults) {
  const auto sums = run_worlds(150, {.requests = 12, .block_count = 40});
  if (!many_seeds()) return;
  EXPECT_GT(sums.failed_steps, 100u);
  EXPECT_GT(sums.cached_tokens, 10'000u);
  EXPECT_GT(sums.copied_rows, 1'000u);
}

TEST(SchedulerSim, TightPool) {
  const auto sums = run_worlds(150, {.requests = 14, .block_count = 7});
  if (!many_seeds()) return;
  EXPECT_GT(sums.evictions, 1'000u);
  EXPECT_GT(sums.cached_tokens, 10'000u);
}

TEST(SchedulerSim, APoolOfOneRequest) {
  const auto sums = run_worlds(
      100, {.requests = 10, .block_count = 2, .context_tokens = 600});
  if (!many_seeds()) return;
  EXPECT_GT(sums.evictions, 100u);
}

TEST(SchedulerSim, RepliesThatOutgrowThePool) {
  const auto sums = run_worlds(60, {.requests = 8,
                                    .block_count = 9,
                                    .parallel = 4,
                                    .context_tokens = 2000,
                                    .reply_max = 1400,
                                    .cancel = 0.01,
                                    .glitch = 0.002});
  if (!many_seeds()) return;
  EXPECT_GT(sums.preemptions, 50u);
}

// A model that keeps snapshots: every step goes from one slot to another.
TEST(SchedulerSim, SnapshotsInARoomyPool) {
  const auto sums =
      run_worlds(150, {.requests = 14, .block_count = 40, .slot_count = 24});
  if (!many_seeds()) return;
  EXPECT_GT(sums.failed_steps, 100u);
  EXPECT_GT(sums.cached_tokens, 10'000u);
}

TEST(SchedulerSim, SnapshotsAreShort) {
  const auto sums =
      run_worlds(150, {.requests = 14, .block_count = 12, .slot_count = 8});
  if (!many_seeds()) return;
  EXPECT_GT(sums.evictions, 1'000u);
  EXPECT_GT(sums.cached_tokens, 1'000u);
}

TEST(SchedulerSim, ACrowd) {
  run_worlds(30, {.requests = 60, .block_count = 24, .parallel = 16});
}

}  // namespace
}  // namespace reprise::sim
