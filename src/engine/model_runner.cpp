#include "engine/model_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>
#include <mlx/version.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/process_memory.h"
#include "base/size.h"
#include "engine/mlx_device.h"
#include "engine/ragged_batch_from_plan.h"
#include "engine/stored_layout.h"
#include "models/registry.h"
#include "weights/checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

// The share of the memory that is free after loading which --state-memory
// auto takes. Pages of it cost nothing before they are used.
constexpr double kAutoStateShare = 0.4;

PoolSizes pool_sizes(const StateLayout& layout,
                     const ModelRunnerOptions& options) {
  const std::size_t bytes =
      options.state_memory_bytes > 0
          ? options.state_memory_bytes
          : static_cast<std::size_t>(kAutoStateShare *
                                     static_cast<double>(available_bytes()));
  const PoolSizes sizes = share_out(layout, bytes, options.parallel);
  if (sizes.blocks > 0) return sizes;
  const std::size_t slot = snapshot_bytes(layout);
  if (slot == 0)
    throw std::runtime_error(fmt::format(
        "--state-memory {} holds no block of this model's state: one block of "
        "{} tokens takes {}",
        format_size(bytes), kBlockTokens, format_size(block_bytes(layout))));
  throw std::runtime_error(fmt::format(
      "--state-memory {} is too small for this model: each of {} requests at "
      "once (--parallel) needs two snapshots of {}, and {} tokens take {}",
      format_size(bytes), options.parallel, format_size(slot), kBlockTokens,
      format_size(block_bytes(layout))));
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

void log_quantized(const StateLayout& layout, const KvQuantization& kv) {
  if (kv.bits == 0) return;
  std::set<std::string> names;
  int from = 0;
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer)
      if (family.quantized) {
        names.insert(family.name);
        from = family.quantized->from;
      }
  if (names.empty())
    spdlog::warn("--kv-bits {}: nothing of this model's state is quantized",
                 kv.bits);
  else
    spdlog::info("quantized to {} bits in groups of {} from position {} on: {}",
                 kv.bits, kv.group_size, from, fmt::join(names, ", "));
  if (const auto plain = plain_parts(layout, kv); !plain.empty())
    spdlog::info("not quantized: {}", fmt::join(plain, "; "));
}

class ModelRunner : public Runner {
 public:
  ModelRunner(std::unique_ptr<Model> model, BlockPools pools,
              const KvQuantization& kv, mx::Dtype dtype,
              mx::Device::DeviceType device)
      : model_(std::move(model)),
        pools_(std::move(pools)),
        kv_(kv),
        dtype_(dtype),
        device_(device) {}

  RunnerInfo info() const override {
    const ModelShape shape = model_->shape();
    return {.vocabulary = shape.vocabulary,
            .context_tokens = shape.context_tokens,
            .block_count = pools_.block_count(),
            .block_bytes = block_bytes(pools_.layout()),
            .slot_count = pools_.slot_count(),
            .slot_bytes = snapshot_bytes(pools_.layout()),
            .device = device_ == mx::Device::DeviceType::cpu ? "cpu" : "gpu",
            .dtype = dtype_name(dtype_),
            .kv_bits = kv_.bits};
  }

  const BlockPools& pools() const { return pools_; }

  StepLogits run(const StepPlan& plan) override {
    try {
      return run_step(plan);
    } catch (...) {
      // A task of the failed step may still be writing: nobody may use its
      // rows' blocks before it has ended.
      end_failed_step();
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
  const KvQuantization kv_;
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
  const StateLayout layout = stored_layout(model->state_layout(), options.kv);
  log_quantized(layout, options.kv);
  const PoolSizes sizes = pool_sizes(layout, options);
  spdlog::info(
      "loaded {} of weights; state: {} blocks of {} tokens, {} each, reserved",
      format_size((*checkpoint)->weight_bytes()), sizes.blocks, kBlockTokens,
      format_size(block_bytes(layout)));
  if (sizes.slots > 0)
    spdlog::info("snapshots: {} of {}, reserved", sizes.slots,
                 format_size(snapshot_bytes(layout)));
  return std::make_unique<ModelRunner>(
      std::move(model), BlockPools(layout, sizes.blocks, sizes.slots),
      options.kv, dtype, device);
}

const BlockPools& state_pools(const Runner& runner) {
  const auto* ours = dynamic_cast<const ModelRunner*>(&runner);
  CHECK(ours != nullptr, "no runner of make_model_runner");
  return ours->pools();
}

std::string describe_backend(const std::string& device) {
  return fmt::format(
      "MLX {}, {}", mx::version(),
      choose_device(device) == mx::Device::DeviceType::cpu ? "cpu" : "gpu");
}

}  // namespace reprise
