// The flags --device and --dtype in MLX's terms.
#pragma once

#include <mlx/device.h>
#include <mlx/dtype.h>

#include <string>

namespace reprise {

// "auto", "cpu" or "gpu". Throws std::runtime_error with what is accepted.
mlx::core::Device::DeviceType choose_device(const std::string& name);

// "auto", "float32", "bfloat16" or "float16". Throws as choose_device.
mlx::core::Dtype choose_dtype(const std::string& name,
                              mlx::core::Device::DeviceType device);

// Makes it the default of this process, before anything is loaded.
void prepare_device(mlx::core::Device::DeviceType device);

// After an evaluation that threw: waits until nothing of it runs any more, and
// leaves MLX as before it. On the thread that evaluated.
void end_failed_step();

}  // namespace reprise
