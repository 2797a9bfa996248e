// engine/model_runner.h with failures: the linker gives `reprise_faulty` this
// in place of make_model_runner. Every so many steps an operation that writes
// state throws, each time another one, chosen at random over all layers and
// stages. Environment:
//   REPRISE_FAULT_EVERY   steps from one failure to the next
//   REPRISE_FAULT_SEED    of the choice
//   REPRISE_FAULT_COMMIT  1: a failed step is said to have gone well, its
//                         logits zeros, as in a server without a transaction
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/model_runner.h"
#include "engine/runner.h"
#include "kernels/fault.h"

namespace reprise {

// The product's, under the names that -Wl,--wrap gives both.
std::unique_ptr<Runner>
real_model_runner(const ModelRunnerOptions& options) __asm__(
    "__real__ZN7reprise17make_model_runnerERKNS_18ModelRunnerOptionsE");
std::unique_ptr<Runner>
faulty_model_runner(const ModelRunnerOptions& options) __asm__(
    "__wrap__ZN7reprise17make_model_runnerERKNS_18ModelRunnerOptionsE");

namespace {

int setting(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::stoi(text) : fallback;
}

class FaultyRunner : public Runner {
 public:
  explicit FaultyRunner(std::unique_ptr<Runner> runner)
      : runner_(std::move(runner)) {
    kernels::set_fault_hook([this](kernels::FaultStage) {
      // Stages of one step run on several threads.
      if (points_++ == target_) throw std::runtime_error("planted");
    });
  }
  ~FaultyRunner() override { kernels::set_fault_hook({}); }

  RunnerInfo info() const override { return runner_->info(); }

  StepLogits run(const StepPlan& plan) override {
    const int seen = points_.exchange(0);
    const bool fails = ++step_ % every_ == 0 && seen > 0;
    target_ = fails ? std::uniform_int_distribution(0, seen - 1)(random_) : -1;
    try {
      return runner_->run(plan);
    } catch (const std::exception&) {
      points_ = seen;  // this step had not all of them
      if (!commits_) throw;
    }
    StepLogits logits{.vocabulary = info().vocabulary, .values = {}};
    for (const StepRow& row : plan.rows)
      logits.values.resize(logits.values.size() +
                           static_cast<std::size_t>(row.logits_wanted) *
                               static_cast<std::size_t>(logits.vocabulary));
    return logits;
  }

 private:
  const std::unique_ptr<Runner> runner_;
  const int every_ = setting("REPRISE_FAULT_EVERY", 20);
  const bool commits_ = setting("REPRISE_FAULT_COMMIT", 0) != 0;
  std::mt19937 random_{static_cast<unsigned>(setting("REPRISE_FAULT_SEED", 1))};
  int step_ = 0;
  std::atomic<int> points_{0};   // of the step, so far
  std::atomic<int> target_{-1};  // the one that throws
};

}  // namespace

std::unique_ptr<Runner> faulty_model_runner(const ModelRunnerOptions& options) {
  return std::make_unique<FaultyRunner>(real_model_runner(options));
}

}  // namespace reprise
