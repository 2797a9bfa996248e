// A family's pools as operands of a graph node.
#pragma once

#include <mlx/array.h>

#include <vector>

#include "kernels/cpu/state_part.h"
#include "kernels/state_rows.h"

namespace reprise::kernels::cpu {

RowFormat row_format(int width, mlx::core::Dtype dtype, const RowCodec& codec);

// row_codec_task.h's quantize_row with the instruction set in use.
void quantize(const RowFormat& format, const char* row, char* out);

// Throws std::invalid_argument "[op] ..." unless the pools fit each other,
// heads of state.dim, and activations of `dtype`.
void check_state(const StateRows& state, int heads, mlx::core::Dtype dtype,
                 const char* op);

class StateOperand {
 public:
  // Adds the state's pools to a node's inputs.
  StateOperand(const StateRows& state, std::vector<mlx::core::array>& inputs);

  // For eval_cpu, with the node's inputs. Throws std::runtime_error for a pool
  // that is not row-contiguous.
  StatePart bind(const std::vector<mlx::core::array>& inputs) const;

 private:
  StatePart part_;  // without pointers
  int plain_ = 0;
  int quantized_ = -1;
};

}  // namespace reprise::kernels::cpu
