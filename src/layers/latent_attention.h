// Latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1): of every
// token one vector, the latent, stands for the keys and values of all heads,
// beside one rotated key that they share, unless the model has no positions.
// Always in absorbed form: a head's
// query goes into the latent's space (embed_q), what it reads there comes back
// out of it (unembed_out), for one token as for a prompt. The expanded form is
// the same mathematics in another order of roundings, and a prompt cut in two
// would tell them apart.
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cache/state_layout.h"
#include "layers/grouped_attention.h"
#include "layers/linear.h"
#include "layers/stacked_matrix.h"

namespace reprise {

struct LatentHeads {
  int heads = 1;
  int nope = 0;    // dims of a head of q and k that do not rotate
  int rope = 0;    // dims that do; 0: it has no positions
  int value = 0;   // dims of a head of v
  int latent = 0;  // elements of a latent
  int query_rank = 0;

  int key() const { return nope + rope; }
};

// num_attention_heads, qk_nope_head_dim, qk_rope_head_dim, v_head_dim,
// kv_lora_rank and q_lora_rank of a configuration.
LatentHeads latent_heads(const nlohmann::json& config);

struct LatentAttention {
  LatentHeads shape;
  Linear q_a;                 // [query_rank, hidden]
  mlx::core::array q_norm;    // [query_rank]
  Linear q_b;                 // [heads * key(), query_rank]
  Linear kv_a;                // [latent + rope, hidden]
  mlx::core::array kv_norm;   // [latent]
  StackedMatrix embed_q;      // [heads, latent, nope]
  StackedMatrix unembed_out;  // [heads, value, latent]
  Linear o;                   // [hidden, heads * value]
  float norm_eps = 0;
};

// "<module>.q_a_proj" and ".kv_a_proj_with_mqa", or ".qkv_a_proj" with the rows
// of both; ".q_a_layernorm", ".q_b_proj", ".kv_a_layernorm", ".o_proj", and
// either ".embed_q" and ".unembed_out" or
// ".kv_b_proj", which holds both: [heads * (nope + value), latent]. The part
// of the keys in it is turned round; where it is quantized, as float32, so
// that nothing is rounded twice. Biases as load_grouped_attention.
LatentAttention load_latent_attention(const Checkpoint& checkpoint,
                                      const std::string& module,
                                      const LatentHeads& shape, int hidden,
                                      float norm_eps);

// x [T, hidden] → [T, hidden]. Latents and rotated keys become the step's rows
// of the layer's families 0 and 1 (latent_state()).
mlx::core::array latent_attention(const mlx::core::array& x,
                                  const LatentAttention& attention,
                                  const LayerStep& step, int layer);

// Its stages, for attention of other kinds to the same state: the queries' own
// latent [T, query_rank], of which absorbed_queries() makes those of all heads,
// [T, heads * (latent + rope)]; the latents as the step's rows of family 0; and
// the way out from what the heads read, [T, heads * latent] → [T, hidden].
mlx::core::array query_latent(const mlx::core::array& x,
                              const LatentAttention& attention);
mlx::core::array absorbed_queries(const mlx::core::array& query_latent,
                                  const LatentAttention& attention,
                                  const LayerStep& step);
kernels::StateRows append_latents(const mlx::core::array& x,
                                  const LatentAttention& attention,
                                  const LayerStep& step, int layer);
mlx::core::array latent_output(const mlx::core::array& y,
                               const LatentAttention& attention);
// Of the scores, for kernels::attention and its kin.
kernels::AttentionShape latent_shape(const LatentHeads& heads);

// The state that one such layer keeps.
LayerState latent_state(const LatentHeads& shape, mlx::core::Dtype dtype);

}  // namespace reprise
