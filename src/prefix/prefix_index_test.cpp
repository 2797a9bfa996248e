#include "prefix/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/limits.h"

namespace reprise {
namespace {

using Tokens = std::vector<TokenId>;

Tokens run_of(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tokens[i] = first + i;
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

int blocks_for(std::size_t tokens) {
  return static_cast<int>((tokens + kBlockTokens - 1) / kBlockTokens);
}

class PrefixIndexTest : public testing::Test {
 protected:
  // As a sequence that computed all of `tokens` and ended.
  std::vector<BlockId> compute_and_publish(const Tokens& tokens) {
    std::vector<BlockId> blocks;
    for (int i = 0; i < blocks_for(tokens.size()); ++i)
      blocks.push_back(*allocator_.allocate());
    index_.publish(tokens, blocks);
    release(blocks);
    index_.check_books();
    return blocks;
  }

  void release(const std::vector<BlockId>& blocks) {
    for (const BlockId id : blocks) allocator_.release(id);
  }

  int hit_of(const Tokens& prompt) {
    const auto hit = index_.acquire(prompt, static_cast<int>(prompt.size()));
    release(hit.blocks);
    return hit.tokens;
  }

  BlockAllocator allocator_{16};
  PrefixIndex index_{allocator_};
};

TEST_F(PrefixIndexTest, FindsTheLongestPrefixAlsoInsideABlock) {
  const Tokens shared = run_of(1000, 300);
  const auto blocks = compute_and_publish(shared + run_of(5000, 400));
  const Tokens prompt = shared + run_of(9000, 100);

  const auto hit = index_.acquire(prompt, 399);
  EXPECT_EQ(hit.tokens, 300);
  EXPECT_EQ(hit.blocks, (std::vector{blocks[0], blocks[1]}));
  EXPECT_EQ(hit.miss_reason, MissReason::diverged);
  EXPECT_EQ(hit.miss_position, 300);
  EXPECT_EQ(allocator_.references(blocks[1]), 2);
  EXPECT_EQ(allocator_.references(blocks[2]), 1);
  EXPECT_EQ(index_.lookup(prompt, 399), 300);
  release(hit.blocks);
}

TEST_F(PrefixIndexTest, AFullHitHasNoMissReason) {
  const Tokens prompt = run_of(0, 700);
  compute_and_publish(prompt);
  const auto hit = index_.acquire(prompt, 699);
  EXPECT_EQ(hit.tokens, 699);
  EXPECT_EQ(hit.blocks.size(), 3u);
  EXPECT_EQ(hit.miss_reason, MissReason::none);
  release(hit.blocks);
  EXPECT_EQ(index_.acquire(prompt, 0).miss_reason, MissReason::none);
}

TEST_F(PrefixIndexTest, EqualBlocksAreHeldOnce) {
  const Tokens shared = run_of(0, 256);
  const auto first = compute_and_publish(shared + run_of(1000, 10));
  const auto second = compute_and_publish(shared + run_of(2000, 10));
  EXPECT_EQ(first[0], second[0]);
  EXPECT_NE(first[1], second[1]);
  EXPECT_EQ(index_.cached_count(), 3);
  EXPECT_EQ(allocator_.free_count(), 13);
}

TEST_F(PrefixIndexTest, ALongerTailReplacesTheShorterOnesThatNobodyHolds) {
  const Tokens tokens = run_of(0, 100);
  compute_and_publish(Tokens(tokens.begin(), tokens.begin() + 10));
  compute_and_publish(Tokens(tokens.begin(), tokens.begin() + 5) +
                      run_of(500, 5));
  const auto held = index_.acquire(tokens, 10);
  ASSERT_EQ(held.tokens, 10);
  compute_and_publish(Tokens(tokens.begin(), tokens.begin() + 20));
  EXPECT_EQ(index_.cached_count(), 3) << "the held one stays";
  release(held.blocks);
  compute_and_publish(tokens);
  EXPECT_EQ(index_.cached_count(), 2);
  EXPECT_EQ(hit_of(tokens), 100);
  EXPECT_EQ(index_.evictions(), 0u) << "nothing was lost";
}

TEST_F(PrefixIndexTest, EvictsTheLongestUnusedSuffixAndSaysSo) {
  const Tokens shared = run_of(0, 256);
  const Tokens old_one = shared + run_of(1000, 300);
  const Tokens new_one = shared + run_of(2000, 300);
  compute_and_publish(old_one);
  compute_and_publish(new_one);
  EXPECT_EQ(index_.evictable_count(), 5);
  ASSERT_EQ(hit_of(old_one), 556) << "touched: now the new one is older";

  EXPECT_TRUE(index_.make_room(allocator_.free_count() + 1));
  EXPECT_EQ(hit_of(new_one), 512);
  EXPECT_EQ(hit_of(old_one), 556);
  const auto hit = index_.acquire(new_one, 556);
  EXPECT_EQ(hit.miss_reason, MissReason::evicted);
  EXPECT_EQ(hit.miss_position, 512);
  EXPECT_FALSE(index_.make_room(16)) << "two blocks are held";
  EXPECT_EQ(index_.cached_count(), 2);
  release(hit.blocks);
  EXPECT_TRUE(index_.make_room(16));
  EXPECT_EQ(index_.evictions(), 5u);

  EXPECT_EQ(index_.acquire(new_one, 556).miss_reason, MissReason::evicted);
  EXPECT_EQ(index_.acquire(run_of(7, 9), 9).miss_reason, MissReason::diverged);
  compute_and_publish(new_one);
  EXPECT_EQ(index_.acquire(old_one, 556).miss_reason, MissReason::evicted)
      << "the ghosts below a block come back with it";
}

TEST_F(PrefixIndexTest, ForgetsOnlyWhatNobodyElseNeeds) {
  const Tokens tokens = run_of(0, 300);
  compute_and_publish(tokens);
  const auto mine = index_.acquire(tokens, 300);
  EXPECT_FALSE(index_.forget(mine.blocks[0])) << "a block follows it";
  const auto other = index_.acquire(tokens, 300);
  EXPECT_FALSE(index_.forget(mine.blocks[1])) << "another one reads it";
  release(other.blocks);
  EXPECT_TRUE(index_.forget(mine.blocks[1]));
  EXPECT_EQ(allocator_.references(mine.blocks[1]), 1);
  EXPECT_FALSE(index_.contains(mine.blocks[1]));
  EXPECT_FALSE(index_.forget(mine.blocks[1]));
  release(mine.blocks);
  index_.check_books();
}

TEST(PrefixIndexGhosts, AreBounded) {
  BlockAllocator allocator(2);
  PrefixIndex index(allocator);
  for (TokenId i = 0; i < 5000; ++i) {
    std::vector<BlockId> blocks = {*allocator.allocate()};
    index.publish(Tokens{i, 1}, blocks);
    allocator.release(blocks[0]);
    ASSERT_TRUE(index.make_room(2));
  }
  index.check_books();
  EXPECT_EQ(index.acquire(Tokens{4999, 1}, 2).miss_reason, MissReason::evicted);
  EXPECT_EQ(index.acquire(Tokens{904, 1}, 2).miss_reason, MissReason::evicted);
  EXPECT_EQ(index.acquire(Tokens{903, 1}, 2).miss_reason, MissReason::diverged);
}

// The index again, as a list that is searched from end to end. An entry is a
// block: all tokens up to its end, and how many of them lie before it.
class NaiveIndex {
 public:
  struct Entry {
    Tokens tokens;
    BlockId block = -1;
    std::size_t used = 0;
    std::size_t start() const {
      return (tokens.size() - 1) / kBlockTokens * kBlockTokens;
    }
  };

  int hit(const Tokens& prompt, std::size_t tokens_max) const {
    return static_cast<int>(longest(entries_, prompt, tokens_max));
  }

  MissReason reason(const Tokens& prompt, std::size_t tokens_max) const {
    const std::size_t live = longest(entries_, prompt, tokens_max);
    if (live == tokens_max) return MissReason::none;
    // Only a ghost whose parent is live is a continuation of the live ones.
    return longest(ghosts_, prompt, tokens_max) > live ? MissReason::evicted
                                                       : MissReason::diverged;
  }

  // Stamps the blocks that make up `blocks` as used now.
  void touch(const std::vector<BlockId>& blocks, std::size_t now) {
    for (Entry& entry : entries_)
      if (std::count(blocks.begin(), blocks.end(), entry.block) > 0)
        entry.used = now;
  }

  // What the index made of a publish: `blocks` after it.
  void publish(const Tokens& tokens, const std::vector<BlockId>& blocks,
               std::size_t now, const BlockAllocator& allocator) {
    touch(blocks, now);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto end = std::min(tokens.size(), (i + 1) * kBlockTokens);
      const Tokens upto(tokens.begin(), tokens.begin() + end);
      if (!std::none_of(entries_.begin(), entries_.end(),
                        [&](const Entry& e) { return e.block == blocks[i]; }))
        continue;
      std::erase_if(entries_, [&](const Entry& e) {
        return e.start() == i * kBlockTokens &&
               common(e.tokens, upto) == e.tokens.size() &&
               allocator.references(e.block) <= 1;
      });
      std::erase_if(ghosts_, [&](const Entry& e) { return e.tokens == upto; });
      entries_.push_back({upto, blocks[i], now});
    }
  }

  // The next to be evicted: unused longest, unheld, nothing after it.
  bool evict() {
    auto victim = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      const bool has_child =
          std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) {
            return e.start() == at->tokens.size() &&
                   common(e.tokens, at->tokens) == at->tokens.size();
          });
      if (has_child || held_.count(at->block) > 0) continue;
      if (victim == entries_.end() || at->used < victim->used) victim = at;
    }
    if (victim == entries_.end()) return false;
    ghosts_.push_back(*victim);
    entries_.erase(victim);
    return true;
  }

  std::set<BlockId> blocks() const {
    std::set<BlockId> ids;
    for (const Entry& e : entries_) ids.insert(e.block);
    return ids;
  }

  std::multiset<BlockId> held_;

 private:
  static std::size_t common(const Tokens& a, const Tokens& b) {
    std::size_t n = 0;
    while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
    return n;
  }
  static std::size_t longest(const std::vector<Entry>& entries,
                             const Tokens& prompt, std::size_t tokens_max) {
    std::size_t best = 0;
    for (const Entry& e : entries)
      best = std::max(best, std::min(tokens_max, common(e.tokens, prompt)));
    return best;
  }

  std::vector<Entry> entries_;
  std::vector<Entry> ghosts_;
};

// Prompts that share prefixes at all kinds of places.
Tokens random_prompt(std::mt19937& rng) {
  Tokens tokens;
  const int parts = 1 + static_cast<int>(rng() % 4);
  for (int i = 0; i < parts; ++i) {
    const int length = std::vector{3, 64, 200, 256}[rng() % 4];
    const auto part = run_of(static_cast<TokenId>(rng() % 2) * 1000, length);
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

// Both indexes side by side, and sequences that hold what they found.
class TwinWorld {
 public:
  explicit TwinWorld(unsigned seed) : rng_(seed) {}

  void step() {
    const Tokens prompt = random_prompt(rng_);
    const auto hit = look_up(prompt);
    if (testing::Test::HasFatalFailure()) return;
    const bool computed = compute_rest(prompt, hit);
    if (holders_.size() > 2 || (!computed && !holders_.empty())) {
      let_go(holders_.front());
      holders_.erase(holders_.begin());
    }
    ASSERT_EQ(index_.cached_count(), static_cast<int>(twin_.blocks().size()));
    for (const BlockId id : twin_.blocks()) ASSERT_TRUE(index_.contains(id));
    index_.check_books();
  }

 private:
  PrefixHit look_up(const Tokens& prompt) {
    const auto limit = prompt.size() - rng_() % 2;
    const int most = static_cast<int>(limit);
    EXPECT_EQ(index_.lookup(prompt, most), twin_.hit(prompt, limit));
    const auto hit = index_.acquire(prompt, most);
    EXPECT_EQ(hit.tokens, twin_.hit(prompt, limit));
    EXPECT_EQ(hit.miss_reason, twin_.reason(prompt, limit));
    twin_.touch(hit.blocks, ++now_);
    hold(hit.blocks);
    return hit;
  }

  // Evicts one by one, as the twin does. False: no room.
  bool compute_rest(const Tokens& prompt, const PrefixHit& hit) {
    const auto kept = static_cast<std::size_t>(hit.tokens / kBlockTokens);
    std::vector<BlockId> blocks(
        hit.blocks.begin(),
        hit.blocks.begin() + static_cast<std::ptrdiff_t>(kept));
    while (static_cast<int>(blocks.size()) < blocks_for(prompt.size())) {
      if (allocator_.free_count() == 0) {
        EXPECT_EQ(index_.make_room(1), twin_.evict());
      }
      const auto id = allocator_.allocate();
      if (!id) break;
      blocks.push_back(*id);
      twin_.held_.insert(*id);
    }
    // The block that is covered in part is not gone on with.
    const std::vector<BlockId> part(
        hit.blocks.begin() + static_cast<std::ptrdiff_t>(kept),
        hit.blocks.end());
    let_go(part);
    const bool room =
        static_cast<int>(blocks.size()) == blocks_for(prompt.size());
    if (room) {
      for (const BlockId id : blocks) twin_.held_.erase(twin_.held_.find(id));
      index_.publish(prompt, blocks);
      twin_.publish(prompt, blocks, ++now_, allocator_);
      hold(blocks);
    }
    if (room && rng_() % 3 == 0) {
      holders_.push_back(blocks);
    } else {
      let_go(blocks);
    }
    return room;
  }

  void hold(const std::vector<BlockId>& blocks) {
    twin_.held_.insert(blocks.begin(), blocks.end());
  }
  void let_go(const std::vector<BlockId>& blocks) {
    for (const BlockId id : blocks) {
      allocator_.release(id);
      twin_.held_.erase(twin_.held_.find(id));
    }
  }

  std::mt19937 rng_;
  BlockAllocator allocator_{12};
  PrefixIndex index_{allocator_};
  NaiveIndex twin_;
  std::vector<std::vector<BlockId>> holders_;
  std::size_t now_ = 0;
};

TEST(PrefixIndexTwin, BehavesLikeAListThatIsSearchedFromEndToEnd) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    TwinWorld world(seed);
    for (int step = 0; step < 120; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      world.step();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace reprise
