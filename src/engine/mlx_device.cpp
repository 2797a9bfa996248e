#include "engine/mlx_device.h"

#include <fmt/format.h>
#include <mlx/compile.h>
#include <mlx/memory.h>
#include <mlx/scheduler.h>
#include <mlx/stream.h>
#include <spdlog/spdlog.h>

#include <stdexcept>

namespace reprise {

namespace mx = mlx::core;

namespace {

// Temporaries of a step are reused from MLX's buffer cache; its default of
// 32 MB makes every larger one a fresh mapping, faulted in page by page.
constexpr std::size_t kBufferCacheBytes = std::size_t{256} << 20;

}  // namespace

// State is appended by a primitive of our own (kernels::append), which has no
// GPU form yet; a GPU is therefore refused, and not chosen by auto either.
mx::Device::DeviceType choose_device(const std::string& name) {
  if (name == "auto" || name == "cpu") return mx::Device::DeviceType::cpu;
  if (name == "gpu")
    throw std::runtime_error(
        "--device gpu is not served by this version: choose cpu or auto");
  throw std::runtime_error(
      fmt::format("'{}' is not a device: choose auto, cpu or gpu", name));
}

// On the CPU float32 is the fastest as well: our kernels compute in it.
mx::Dtype choose_dtype(const std::string& name, mx::Device::DeviceType device) {
  if (name == "auto")
    return device == mx::Device::DeviceType::cpu ? mx::float32 : mx::bfloat16;
  if (name == "float32") return mx::float32;
  if (name == "bfloat16") return mx::bfloat16;
  if (name == "float16") return mx::float16;
  throw std::runtime_error(fmt::format(
      "'{}' is not a dtype: choose auto, float32, bfloat16 or float16", name));
}

void prepare_device(mx::Device::DeviceType device) {
  mx::set_default_device(mx::Device(device));
  if (device != mx::Device::DeviceType::cpu) return;
  mx::set_cache_limit(kBufferCacheBytes);
  // On the CPU, compiling would run g++ and load what lies in the temporary
  // folder, where anybody may put a library.
  mx::disable_compile();
}

// MLX counts every tenth task when it hands it to a stream; where one before
// it has thrown meanwhile, the end of what was counted may never come. With
// eleven such, the next evaluation would wait for one of them forever.
void end_failed_step() {
  try {
    mx::synchronize();
  } catch (const std::exception& e) {
    spdlog::warn("the failed step failed again while ending: {}", e.what());
    mx::synchronize();
  }
  while (mx::scheduler::n_active_tasks() > 0)
    mx::scheduler::notify_task_completion(
        mx::default_stream(mx::default_device()));
}

}  // namespace reprise
