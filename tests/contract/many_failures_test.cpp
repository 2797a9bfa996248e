// A server that runs for weeks sees more than one failed step.
#include <gtest/gtest.h>
#include <mlx/scheduler.h>

#include <numeric>
#include <stdexcept>

#include "engine/model_runner.h"
#include "kernels/fault.h"
#include "support/fixture_models.h"
#include "support/scheduled_run.h"

namespace reprise {
namespace {

// In tasks of the stream, where an exception finds others on their way: none
// of them is counted as running afterwards, and the reply is as ever.
TEST(ManyFailures, LeaveNothingRunning) {
  const auto runner =
      make_model_runner({.model_path = fixture_models().front().path,
                         .device = "cpu",
                         .dtype = "float32",
                         .state_memory_bytes = std::size_t{64} << 20});
  Request request;
  request.prompt.resize(40);
  std::iota(request.prompt.begin(), request.prompt.end(), 1);
  request.sampling.temperature = 0;
  request.max_tokens = 4;
  const auto want = ScheduledRun(*runner, 1).run(request);

  for (int failure = 0; failure < 300; ++failure) {
    ScheduledRun run(*runner, 1);
    run.fail_alone = false;
    run.add(request);
    int seen = 0;
    kernels::set_fault_hook([&](kernels::FaultStage at) {
      if (at == kernels::FaultStage::task && seen++ == failure % 3)
        throw std::runtime_error("planted");
    });
    run.step();
    kernels::set_fault_hook({});
    ASSERT_EQ(run.failures.size(), 1u);
    ASSERT_EQ(mlx::core::scheduler::n_active_tasks(), 0) << failure;
  }
  EXPECT_TRUE(ScheduledRun(*runner, 1).run(request) == want);
}

}  // namespace
}  // namespace reprise
