#include "server/body_budget.h"

#include <gtest/gtest.h>

#include <optional>

namespace reprise {
namespace {

TEST(BodyBudget, SharesAddUpAndComeBack) {
  BodyBudget budget(100);
  std::optional<BodyBudget::Share> a, b;
  a.emplace(budget);
  b.emplace(budget);
  EXPECT_TRUE(a->grow_to(60));
  EXPECT_TRUE(b->grow_to(40));
  EXPECT_EQ(budget.used(), 100u);
  EXPECT_FALSE(b->grow_to(41));
  EXPECT_FALSE(a->fits(61));
  EXPECT_TRUE(a->fits(60));
  EXPECT_EQ(budget.used(), 100u) << "what does not fit changes nothing";
  EXPECT_TRUE(a->grow_to(10)) << "a share does not shrink";
  EXPECT_EQ(budget.used(), 100u);
  a->release();
  a->release();
  EXPECT_EQ(budget.used(), 40u);
  EXPECT_TRUE(b->grow_to(100));
  b.reset();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BodyBudget, HugeSizesDoNotWrapAround) {
  BodyBudget budget(100);
  BodyBudget::Share share(budget);
  EXPECT_TRUE(share.grow_to(1));
  EXPECT_FALSE(share.fits(~std::size_t{0}));
}

}  // namespace
}  // namespace reprise
