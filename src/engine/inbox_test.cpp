#include "engine/inbox.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/limits.h"

namespace reprise {
namespace {

using namespace std::chrono_literals;

const SchedulerLimits kLimits = {.context_tokens = 100, .block_count = 1};

Request small_request() {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 2;
  return request;
}

TEST(Inbox, IsClosedUntilItIsOpened) {
  Inbox inbox("not yet");
  const auto refused = inbox.submit(small_request(), {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(refused.error().message, "not yet");
  inbox.open(kLimits, 10);
  EXPECT_TRUE(inbox.submit(small_request(), {}, {}));
  inbox.close("broken");
  EXPECT_EQ(inbox.submit(small_request(), {}, {}).error().message, "broken");
}

TEST(Inbox, GivesEverythingOnceAndInOrder) {
  Inbox inbox("");
  inbox.open(kLimits, 10);
  const auto first = *inbox.submit(small_request(), {}, {});
  const auto second = *inbox.submit(small_request(), {}, {});
  inbox.cancel(second);
  inbox.cancel(second);
  inbox.cancel(second + 1);  // never given out
  const auto mail = inbox.take(0ms);
  ASSERT_EQ(mail.submissions.size(), 2u);
  EXPECT_EQ(mail.submissions[0].id, first);
  EXPECT_EQ(mail.submissions[1].id, second);
  EXPECT_EQ(mail.cancels, (std::vector{second}));
  const auto empty = inbox.take(0ms);
  EXPECT_TRUE(empty.submissions.empty() && empty.cancels.empty());
}

TEST(Inbox, CountsWhatWaitsBehindIt) {
  Inbox inbox("");
  inbox.open(kLimits, 10);
  for (std::size_t i = 0; i < kInboxRequestsMax; ++i)
    ASSERT_TRUE(inbox.submit(small_request(), {}, {}));
  inbox.take(0ms);
  EXPECT_EQ(inbox.submit(small_request(), {}, {}).error().kind, ErrorKind::busy)
      << "taken is not yet admitted";
  inbox.settle(static_cast<int>(kInboxRequestsMax) - 1);
  EXPECT_TRUE(inbox.submit(small_request(), {}, {}));
  EXPECT_FALSE(inbox.submit(small_request(), {}, {}));
}

TEST(Inbox, WakesWhoeverWaits) {
  Inbox inbox("");
  inbox.open(kLimits, 10);
  std::thread sender([&] {
    std::this_thread::sleep_for(20ms);
    (void)inbox.submit(small_request(), {}, {});
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(inbox.take(30s).submissions.size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  sender.join();
  std::thread stopper([&] { inbox.stop(); });
  EXPECT_TRUE(inbox.take(30s).stopping);
  stopper.join();
  inbox.open(kLimits, 10);
  EXPECT_FALSE(inbox.submit(small_request(), {}, {})) << "stopped for good";
}

}  // namespace
}  // namespace reprise
