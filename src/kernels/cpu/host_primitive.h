// What all operations of ours on the CPU have in common: a base class, and
// access to inputs that need not be row-contiguous.
//
// A graph builder must not wrap its inputs in contiguous(): that is one more
// node for each input, microseconds in a step of a millisecond, where nearly
// every input is contiguous already. Instead eval_cpu asks row_view().
#pragma once

#include <mlx/array.h>
#include <mlx/primitives.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/element.h"

namespace reprise::kernels::cpu {

// Whether graphs built now, on this thread, run on the CPU.
bool on_cpu();

// The stream of graphs built now, on this thread.
mlx::core::Stream current_stream();

class HostPrimitive : public mlx::core::UnaryPrimitive {
 public:
  HostPrimitive() : UnaryPrimitive(current_stream()) {}

  void eval_gpu(const std::vector<mlx::core::array>&,
                mlx::core::array&) override {
    throw std::runtime_error(std::string("[") + name() +
                             "] runs on the CPU only");
  }
};

// For operations with several outputs; build them with array::make_arrays.
class HostMultiPrimitive : public mlx::core::Primitive {
 public:
  HostMultiPrimitive() : Primitive(current_stream()) {}

  void eval_gpu(const std::vector<mlx::core::array>&,
                std::vector<mlx::core::array>&) override {
    throw std::runtime_error(std::string("[") + name() +
                             "] runs on the CPU only");
  }
};

// Throws std::invalid_argument "[op] ..." for what is not a floating type of
// 16 or 32 bits.
ElementType element_type(mlx::core::Dtype dtype, const char* op);

// A matrix in memory whose rows have unit stride.
struct RowView {
  const char* data = nullptr;
  std::int64_t row_bytes = 0;  // from one row to the next; 0: one row for all
};

// The view of an evaluated [rows, dim] or [dim] array, for eval_cpu. Its own
// memory where its strides allow; otherwise a copy that is made by a task
// dispatched here to `stream`, and that lives until the tasks behind it ended.
RowView row_view(const mlx::core::array& a, const mlx::core::Stream& stream);

}  // namespace reprise::kernels::cpu
