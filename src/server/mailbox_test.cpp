#include "server/mailbox.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "server/deadline.h"

namespace reprise {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

Event token(TokenId id) {
  return {1, SampledToken{id}};
}

TEST(Mailbox, EventsOfAnotherThreadComeInOrderAndNoneIsLost) {
  constexpr int kCount = 20'000;
  asio::io_context io;
  MailboxReader reader(io.get_executor(), [] { FAIL() << "overflow"; });
  std::vector<TokenId> got;
  std::atomic<int> taken = 0;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        while (got.size() < kCount) {
          const auto events = co_await reader.wait();
          for (const auto& e : events)
            got.push_back(std::get<SampledToken>(e.event.what).id);
          taken = static_cast<int>(got.size());
        }
      },
      asio::detached);
  std::thread engine([&, mailbox = reader.mailbox()] {
    for (int i = 0; i < kCount; ++i) {
      mailbox->push(token(i));
      // Bursts, with the reader waiting between them.
      while (i % 512 == 0 && taken <= i) std::this_thread::yield();
    }
  });
  io.run_for(std::chrono::seconds(20));
  engine.join();
  ASSERT_EQ(got.size(), static_cast<std::size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(got[i], i);
}

TEST(Mailbox, OverflowIsToldAndEndsTheWait) {
  asio::io_context io;
  int overflows = 0;
  MailboxReader reader(io.get_executor(), [&] { ++overflows; });
  for (std::size_t i = 0; i < kMailboxEventsMax; ++i)
    reader.mailbox()->push(token(1));
  io.run();
  EXPECT_EQ(overflows, 0) << "the limit itself still fits";
  reader.mailbox()->push(token(1));
  reader.mailbox()->push(token(1));
  bool empty = false;
  io.restart();
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        const auto events = co_await reader.wait();
        empty = events.empty();
      },
      asio::detached);
  io.run();
  EXPECT_EQ(overflows, 1);
  EXPECT_TRUE(empty && reader.interrupted());
}

TEST(Mailbox, InterruptEndsTheWait) {
  asio::io_context io;
  MailboxReader reader(io.get_executor(), [] {});
  bool ended = false;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        const auto events = co_await reader.wait();
        ended = events.empty();
      },
      asio::detached);
  asio::post(io, [&] { reader.interrupt(); });
  io.run();
  EXPECT_TRUE(ended);
}

TEST(Mailbox, OutlivesItsReaderAndTheContext) {
  auto io = std::make_unique<asio::io_context>();
  auto reader = std::make_unique<MailboxReader>(io->get_executor(), [] {});
  const auto mailbox = reader->mailbox();
  mailbox->push(token(1));
  reader.reset();
  io->run();  // the wake that was posted finds nobody
  io.reset();
  mailbox->push(token(2));
}

TEST(Deadline, RunsOnceInTimeOrNotAtAll) {
  asio::io_context io;
  Deadline deadline(io.get_executor());
  int runs = 0;
  deadline.start(milliseconds(1), [&] { ++runs; });
  EXPECT_FALSE(deadline.expired());
  io.run();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(deadline.expired());
  deadline.stop();

  io.restart();
  deadline.start(milliseconds(1), [&] { ++runs; });
  deadline.stop();
  io.run();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(deadline.expired());
}

// Both timers fire in one pass, so that the deadline's handler is queued
// already, without an error, when it is stopped.
TEST(Deadline, AFiredTimerIsStoppedToo) {
  asio::io_context io;
  Deadline deadline(io.get_executor());
  int runs = 0;
  asio::steady_timer before(io, milliseconds(0));
  before.async_wait([&](auto) {
    deadline.stop();
    deadline.start(std::chrono::hours(1), [&] { ++runs; });
  });
  deadline.start(milliseconds(1), [&] { ++runs; });
  std::this_thread::sleep_for(milliseconds(5));
  io.poll();
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(deadline.expired());
}

}  // namespace
}  // namespace reprise
