#include "engine/model_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/stream.h>
#include <mlx/transforms.h>
#include <mlx/version.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/process_memory.h"
#include "base/size.h"
#include "engine/mlx_device.h"
#include "engine/ragged_batch_from_plan.h"
#include "models/registry.h"
#include "weights/checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

// The share of the memory that is free after loading which --state-memory
// auto takes. Pages of it cost nothing before they are used.
constexpr double kAutoStateShare = 0.4;

int blocks_that_fit(const StateLayout& layout, std::size_t budget_bytes) {
  const std::size_t each = block_bytes(layout);
  CHECK(each > 0);
  const std::size_t bytes =
      budget_bytes > 0
          ? budget_bytes
          : static_cast<std::size_t>(kAutoStateShare *
                                     static_cast<double>(available_bytes()));
  // A pool's rows are counted in 32 bits by MLX's shapes.
  const std::size_t max =
      std::numeric_limits<std::int32_t>::max() / kBlockTokens;
  const std::size_t count = std::min(bytes / each, max);
  if (count == 0)
    throw std::runtime_error(fmt::format(
        "--state-memory {} holds no block of this model's state: one block of "
        "{} tokens takes {}",
        format_size(bytes), kBlockTokens, format_size(each)));
  return static_cast<int>(count);
}

// Weights that the model ignores may be what makes it another model.
void log_unread(const Checkpoint& checkpoint) {
  constexpr std::size_t kNamesMax = 8;
  const auto names = checkpoint.unread();
  if (names.empty()) return;
  const auto shown = std::min(names.size(), kNamesMax);
  spdlog::info("not loaded: {} tensors ({}{})", names.size(),
               fmt::join(names.begin(), names.begin() + shown, ", "),
               names.size() > shown ? ", ..." : "");
}

class ModelRunner : public Runner {
 public:
  ModelRunner(std::unique_ptr<Model> model, int block_count, mx::Dtype dtype,
              mx::Device::DeviceType device)
      : model_(std::move(model)),
        pools_(model_->state_layout(), block_count),
        dtype_(dtype),
        device_(device) {}

  RunnerInfo info() const override {
    const ModelShape shape = model_->shape();
    return {.vocabulary = shape.vocabulary,
            .context_tokens = shape.context_tokens,
            .block_count = pools_.block_count(),
            .block_bytes = block_bytes(pools_.layout()),
            .device = device_ == mx::Device::DeviceType::cpu ? "cpu" : "gpu",
            .dtype = dtype_name(dtype_)};
  }

  StepLogits run(const StepPlan& plan) override {
    try {
      return run_step(plan);
    } catch (...) {
      // A task of the failed step may still be writing: nobody may use its
      // rows' blocks before it has ended.
      try {
        mx::synchronize();
      } catch (const std::exception& e) {
        spdlog::warn("the failed step failed again while ending: {}", e.what());
      }
      throw;
    }
  }

 private:
  StepLogits run_step(const StepPlan& plan) {
    const PlannedStep step = planned_step(plan);
    // A step that wants no logits still has to be evaluated to its end.
    std::vector<std::int32_t> rows = step.logits_rows;
    if (rows.empty()) rows.push_back(step.batch->tokens - 1);
    const auto ints = [](const std::vector<std::int32_t>& v) {
      return mx::array(v.begin(), mx::Shape{static_cast<int>(v.size())});
    };
    const StepInput input{ints(step.token_ids), ints(rows), step.batch};
    mx::array logits = mx::contiguous(model_->forward(input, pools_));
    mx::eval(logits);

    StepLogits out{.vocabulary = logits.shape(1), .values = {}};
    const float* data = logits.data<float>();
    out.values.assign(data,
                      data + step.logits_rows.size() *
                                 static_cast<std::size_t>(out.vocabulary));
    return out;
  }

  const std::unique_ptr<Model> model_;
  const BlockPools pools_;
  const mx::Dtype dtype_;
  const mx::Device::DeviceType device_;
};

}  // namespace

std::unique_ptr<Runner> make_model_runner(const ModelRunnerOptions& options) {
  const auto device = choose_device(options.device);
  const auto dtype = choose_dtype(options.dtype, device);
  prepare_device(device);
  auto checkpoint = Checkpoint::open(options.model_path);
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  auto model = make_model(**checkpoint, {.dtype = dtype});
  log_unread(**checkpoint);
  const int blocks =
      blocks_that_fit(model->state_layout(), options.state_memory_bytes);
  spdlog::info(
      "loaded {} of weights; state: {} blocks of {} tokens, {} each, reserved",
      format_size((*checkpoint)->weight_bytes()), blocks, kBlockTokens,
      format_size(block_bytes(model->state_layout())));
  return std::make_unique<ModelRunner>(std::move(model), blocks, dtype, device);
}

std::string describe_backend(const std::string& device) {
  return fmt::format(
      "MLX {}, {}", mx::version(),
      choose_device(device) == mx::Device::DeviceType::cpu ? "cpu" : "gpu");
}

}  // namespace reprise
