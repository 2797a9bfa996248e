// What a model with snapshots evaluates and what it does not, over scheduler
// and fake model.
#include <gtest/gtest.h>

#include <random>

#include "sim_world.h"

namespace reprise::sim {
namespace {

constexpr int kVocabulary = 32;

class SnapshotReuse : public testing::Test {
 protected:
  void start(int blocks, int slots, int parallel = 4) {
    world_ = std::make_unique<SimWorld>(SchedulerLimits{.parallel = parallel,
                                                        .context_tokens = 8000,
                                                        .block_count = blocks,
                                                        .slot_count = slots},
                                        kVocabulary);
  }

  static std::vector<TokenId> text(int seed, int count) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<TokenId> tokens(static_cast<std::size_t>(count));
    for (auto& token : tokens) token = static_cast<TokenId>(random() % 32);
    return tokens;
  }

  RequestId add(const std::vector<TokenId>& prompt, int max_tokens = 8,
                const std::vector<int>& marks = {}) {
    Request request;
    request.prompt = prompt;
    request.marks = marks;
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    EXPECT_TRUE(world_->add(++last_, request));
    return last_;
  }

  // Prompt tokens that were evaluated for it.
  int evaluated(RequestId id) {
    return world_->outcomes().at(id).finish->cache.evaluated_tokens;
  }
  const std::vector<TokenId>& reply(RequestId id) {
    return world_->outcomes().at(id).reply;
  }

  int ask(const std::vector<TokenId>& prompt, int max_tokens = 8,
          const std::vector<int>& marks = {}) {
    const RequestId id = add(prompt, max_tokens, marks);
    world_->run();
    EXPECT_EQ(world_->complaint(), "");
    return evaluated(id);
  }

  std::unique_ptr<SimWorld> world_;
  RequestId last_ = 0;
};

// Every turn: its new tokens, and the reply's last one, which nobody had to
// evaluate before.
TEST_F(SnapshotReuse, ATurnCostsItsNewTokens) {
  start(40, 12);
  auto chat = text(1, 2000);
  EXPECT_EQ(ask(chat), 2000);
  for (int turn = 0; turn < 20; ++turn) {
    const auto& answer = reply(last_);
    chat.insert(chat.end(), answer.begin(), answer.end());
    const auto words = text(100 + turn, 1 + turn % 16);
    chat.insert(chat.end(), words.begin(), words.end());
    EXPECT_EQ(ask(chat), static_cast<int>(words.size()) + 1) << turn;
  }
}

TEST_F(SnapshotReuse, AnExactRepeatCostsAtMostAQuantum) {
  start(40, 12);
  for (const int size : {1, 2, 63, 64, 65, 128, 129, 255, 256, 257, 1000}) {
    const auto prompt = text(size, size);
    EXPECT_EQ(ask(prompt), size);
    EXPECT_LE(ask(prompt), 64) << size;
    EXPECT_LE(ask(prompt), 64) << size;
  }
}

// One document, different questions: the second notices where they part, the
// third goes on from there.
TEST_F(SnapshotReuse, ABranchPointIsKept) {
  start(40, 12);
  auto question = [&](int seed) {
    auto prompt = text(1, 1000);
    const auto words = text(seed, 300);
    prompt.insert(prompt.end(), words.begin(), words.end());
    return prompt;
  };
  EXPECT_EQ(ask(question(2)), 1300);
  EXPECT_EQ(ask(question(3)), 1300) << "no snapshot stood inside";
  EXPECT_LE(ask(question(4)), 300 + 64);
  EXPECT_LE(ask(question(5)), 300 + 64);
}

// A message begins there: the second conversation goes on from it already.
TEST_F(SnapshotReuse, AMarkIsKeptAtOnce) {
  start(40, 12);
  for (const int mark : {64, 65, 511, 700, 1000}) {
    auto first = text(mark, mark);
    auto second = first;
    for (auto [prompt, seed] : {std::pair(&first, 2), {&second, 3}}) {
      const auto words = text(seed, 300);
      prompt->insert(prompt->end(), words.begin(), words.end());
    }
    EXPECT_EQ(ask(first, 8, {mark}), mark + 300);
    EXPECT_EQ(ask(second, 8, {mark}), 300) << mark;
  }
}

// Asked at once, it is computed once; the others go on from the last quantum.
TEST_F(SnapshotReuse, SeveralAtOnceShareOnePrefill) {
  start(60, 16);
  const auto prompt = text(1, 1500);
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(add(prompt));
  auto other = prompt;
  other.resize(1100);
  const auto words = text(9, 100);
  other.insert(other.end(), words.begin(), words.end());
  const RequestId branch = add(other);
  world_->run();
  EXPECT_EQ(world_->complaint(), "");
  EXPECT_EQ(evaluated(ids[0]), 1500);
  for (int i = 1; i < 4; ++i) EXPECT_LE(evaluated(ids[i]), 64);
  EXPECT_LE(evaluated(branch), 100 + 64);
}

TEST_F(SnapshotReuse, InterleavedConversationsAllHit) {
  start(60, 20);
  std::vector<std::vector<TokenId>> chats;
  for (int i = 0; i < 8; ++i) chats.push_back(text(i, 400 + i));
  std::vector<RequestId> last(8);
  for (int turn = 0; turn < 5; ++turn)
    for (int i = 0; i < 8; ++i) {
      auto& chat = chats[i];
      if (turn > 0) {
        const auto& answer = reply(last[i]);
        chat.insert(chat.end(), answer.begin(), answer.end());
        const auto words = text(turn, 16);
        chat.insert(chat.end(), words.begin(), words.end());
      }
      const int cost = ask(chat);
      EXPECT_EQ(cost, turn > 0 ? 17 : 400 + i) << turn << ", chat " << i;
      last[i] = last_;
    }
}

// A prefill that is cut short leaves what it has.
TEST_F(SnapshotReuse, ACancelledPrefillIsGoneOnWith) {
  start(40, 12);
  const auto prompt = text(1, 3000);
  const RequestId id = add(prompt);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(world_->step());
  world_->cancel(id);
  const int before = evaluated(id);
  EXPECT_GT(before, 500);
  EXPECT_EQ(ask(prompt), 3000 - before);
}

}  // namespace
}  // namespace reprise::sim
