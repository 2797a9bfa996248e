#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace reprise::kernels::cpu {
namespace {

// A decode step is some two hundred loops a few tens of microseconds apart:
// waking a sleeping thread for each would cost more than the loops.
constexpr auto kSpin = std::chrono::microseconds(40);
constexpr int kPausesPerLook = 16;  // between looks at the clock

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until ready() or the time is over; says which.
template <typename Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

thread_local bool inside_loop = false;

// The loop in progress is one word: its number and how many indices are still
// to be claimed. Claiming is a compare-and-swap that takes one off, so that a
// thread that slept through a whole loop cannot claim an index of the next
// one by mistake, and the caller waits for indices, never for threads that
// have not woken up yet.
class Pool {
 public:
  explicit Pool(int thread_count) : thread_count_(thread_count) {}
  ~Pool() { stop(); }

  int thread_count() const { return thread_count_.load(); }

  void set_thread_count(int count) {
    const std::lock_guard lock(caller_);
    if (count == thread_count_) return;
    stop();
    thread_count_ = count;
  }

  void run(int count, const std::function<void(int)>& body) {
    CHECK(!inside_loop, "parallel_for inside a parallel_for");
    const std::lock_guard lock(caller_);
    start();
    body_ = &body;
    count_ = count;
    error_ = nullptr;
    pending_.store(count, std::memory_order_relaxed);
    loop_ = loop_ + (std::uint64_t{1} << 32);
    // Sequentially consistent, as is sleep(): either the worker that goes to
    // sleep sees this loop, or it is seen here and woken.
    ticket_.store(loop_ | static_cast<std::uint32_t>(count));
    if (sleepers_.load() > 0) wake();
    while (work()) {
    }
    wait_for_others();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static bool has_work(std::uint64_t ticket) {
    return static_cast<std::uint32_t>(ticket) != 0;
  }

  void start() {
    const auto wanted = static_cast<std::size_t>(thread_count_ - 1);
    while (workers_.size() < wanted)
      workers_.emplace_back([this] { work_until_stopped(); });
  }

  void stop() {
    stopping_ = true;
    wake();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_ = false;
  }

  void wake() {
    epoch_.fetch_add(1);
    epoch_.notify_all();
  }

  // Claims and runs one index; false when there is none.
  bool work() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    do {
      if (!has_work(ticket)) return false;
    } while (!ticket_.compare_exchange_weak(ticket, ticket - 1,
                                            std::memory_order_acq_rel));
    // The loop cannot end before this index does: its members hold still.
    call(count_ - static_cast<int>(static_cast<std::uint32_t>(ticket)));
    if (pending_.fetch_sub(1) == 1 && caller_sleeps_.load())
      pending_.notify_all();
    return true;
  }

  void call(int index) {
    inside_loop = true;
    try {
      (*body_)(index);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    inside_loop = false;
  }

  void wait_for_others() {
    if (spin_until([this] { return pending_.load() == 0; })) return;
    caller_sleeps_ = true;
    for (int left = pending_; left != 0; left = pending_) pending_.wait(left);
    caller_sleeps_ = false;
  }

  void work_until_stopped() {
    const auto called = [this] {
      return has_work(ticket_.load()) || stopping_.load();
    };
    while (!stopping_) {
      while (work()) {
      }
      if (!spin_until(called)) sleep(called);
    }
  }

  template <typename Called>
  void sleep(Called called) {
    const int epoch = epoch_.load();
    sleepers_.fetch_add(1);
    if (!called()) epoch_.wait(epoch);
    sleepers_.fetch_sub(1);
  }

  std::mutex caller_;  // held by the one whose loop it is

  // Under caller_; workers read the first three between claiming an index and
  // finishing it.
  const std::function<void(int)>* body_ = nullptr;
  int count_ = 0;
  std::exception_ptr error_;
  std::uint64_t loop_ = 0;
  std::vector<std::thread> workers_;

  std::mutex error_mutex_;
  std::atomic<int> thread_count_;

  // Each on a line of its own: they are written by different threads.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<int> pending_{0};
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<int> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
};

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0)
    return std::max(1, CPU_COUNT(&cores));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Never destroyed: MLX's stream threads may still run a loop while statics of
// the program are taken down.
Pool& pool() {
  static Pool& instance = *new Pool(usable_cores());
  return instance;
}

// What a loop on one thread does: the same promises, nothing shared.
void run_here(int count, const std::function<void(int)>& body) {
  std::exception_ptr error;
  for (int i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

int thread_count() {
  return pool().thread_count();
}

void set_thread_count(int count) {
  CHECK(count >= 1, "{} threads", count);
  pool().set_thread_count(count);
}

void parallel_for(int count, const std::function<void(int)>& body) {
  if (count <= 1 || thread_count() == 1) {
    run_here(count, body);
  } else {
    pool().run(count, body);
  }
}

}  // namespace reprise::kernels::cpu
