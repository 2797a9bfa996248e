// Queries, states and sinks of an attention as operands of a graph node.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/state_operand.h"

namespace reprise::kernels::cpu {

// Throws std::invalid_argument "[attention] ..." for what does not fit.
void check_attention(const array& q, const std::vector<StateRows>& keys,
                     const StateRows& values, const std::optional<array>& sinks,
                     const RaggedBatch& batch, const AttentionShape& shape);

class AttentionOperands {
 public:
  // Adds them to a node's inputs.
  AttentionOperands(const array& q, const std::vector<StateRows>& keys,
                    const StateRows& values, const std::optional<array>& sinks,
                    const AttentionShape& shape, std::vector<array>& inputs);

  // For eval_cpu, with the node's inputs: a task that is laid out and lacks
  // only where to write.
  AttentionTask bind(const std::vector<array>& inputs,
                     const mlx::core::Stream& stream) const;

 private:
  AttentionShape shape_;
  int q_ = 0;
  std::vector<StateOperand> keys_;
  std::vector<StateOperand> values_;  // one
  int sinks_ = -1;
};

}  // namespace reprise::kernels::cpu
