// Mixtures of experts: which experts a token goes to, the products with their
// matrices, and the weighted sum of what comes back. Contracts as in ops.h: on
// the CPU the bits of a row depend on that row alone.
//
// A token's k choices are its slots: row i * k + j of a [T * k, dim] array is
// slot j of token i.
#pragma once

#include <mlx/array.h>

#include <optional>

#include "kernels/ops.h"

namespace reprise::kernels {

// One matrix an expert, each as QuantizedMatrix has it.
struct QuantizedExperts {
  array words;          // uint32 [E, N, K * bits / 32]
  array scales;         // float32, bfloat16 or float16 [E, N, K / group_size]
  array biases;         // as scales
  int group_size = 64;  // 32, 64 or 128
  int bits = 4;         // 2, 3, 4, 5, 6 or 8

  int experts() const { return words.shape(0); }
  int rows() const { return words.shape(1); }
  int columns() const { return scales.shape(2) * group_size; }
};

// Row i * k + j of the result [T * k, N] is x_row · w[ids[i, j]]ᵀ, with the
// bits that matmul(x_row, w[e]) has. x is [T, K], each row for all slots of
// its token, or [T * k, K], a row a slot. ids: int32 [T, k]. w: float32,
// bfloat16 or float16 [E, N, K], or quantized. An id that is no expert fails
// the evaluation, not the call, with the id in the message.
array expert_matmul(const array& x, const array& w, const array& ids);
array expert_matmul(const array& x, const QuantizedExperts& w,
                    const array& ids);

// Σ_j weights[i, j] * y[i * k + j] over ascending slots j, in float32, rounded
// once: y [T * k, N], weights float32 [T, k] → [T, N] in y's dtype.
array expert_sum(const array& y, const array& weights);

struct RoutingRule {
  enum class Score { sigmoid, softmax };  // softmax over all experts
  int top_k = 1;
  Score score = Score::softmax;
  bool normalize = false;  // divide by (the chosen scores' sum + 1e-20)
  float scale = 1.0f;      // then multiply by this
  // Of `groups` equal groups of neighbouring experts only the best
  // `groups_kept` can be chosen from. A group is as good as the sum of its two
  // best (score + bias). (DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2)
  int groups = 1;
  int groups_kept = 1;
};

struct Routing {
  array ids;      // int32 [T, top_k], by descending (score + bias)
  array weights;  // float32 [T, top_k], alike
};

// The experts of each row of logits [T, E]: the top_k largest of
// score + bias; of equal ones the lowest id first. The bias [E] only chooses;
// weights are made of the scores, each times expert_scale[id] if there is one
// [E]. All in float32; logits, bias and expert_scale are of any of the three
// types. A logit that is not a number is chosen last, and makes the weights
// that it enters not numbers either; ids are always distinct experts.
Routing route(const array& logits, const RoutingRule& rule,
              const std::optional<array>& bias = {},
              const std::optional<array>& expert_scale = {});

}  // namespace reprise::kernels
