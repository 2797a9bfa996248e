#include "text/piece_cache.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using Ids = std::vector<TokenId>;

TEST(PieceCache, RemembersAndCounts) {
  PieceCache cache(1 << 16);
  EXPECT_FALSE(cache.find("a"));
  cache.insert("a", {1, 2});
  cache.insert("", {});
  cache.insert("a", {3});  // there already
  EXPECT_EQ(cache.find("a"), (Ids{1, 2}));
  EXPECT_EQ(cache.find(""), Ids{});
  EXPECT_EQ(cache.hits(), 2u);
}

TEST(PieceCache, ForgetsTheLeastRecentlyUsed) {
  PieceCache cache(900);  // five small pieces
  for (const char* text : {"a", "b", "c", "d", "e"}) cache.insert(text, {1});
  EXPECT_TRUE(cache.find("a"));
  cache.insert("f", {1});
  cache.insert("g", {1});
  EXPECT_TRUE(cache.find("a"));
  EXPECT_FALSE(cache.find("b"));
  EXPECT_FALSE(cache.find("c"));
  EXPECT_TRUE(cache.find("g"));
}

TEST(PieceCache, StaysWithinItsBytes) {
  PieceCache cache(10000);
  for (int i = 0; i < 500; ++i) {
    cache.insert(std::string(i, 'x'), Ids(i % 50, 1));
    EXPECT_LE(cache.bytes(), 10000u);
  }
  EXPECT_GT(cache.bytes(), 5000u);
  const std::size_t before = cache.bytes();
  cache.insert(std::string(6000, 'y'), {});  // too large to be worth it
  EXPECT_EQ(cache.bytes(), before);
}

}  // namespace
}  // namespace reprise
