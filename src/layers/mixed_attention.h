// Grouped-query attention of decoders that mix kinds of layers: over a window
// or over everything, with heads and rotations of each kind's own, RMS norms of
// the heads of q, k and v, and keys and values that later layers read as well.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>
#include <vector>

#include "cache/state_layout.h"
#include "kernels/state_rows.h"
#include "layers/grouped_attention.h"
#include "layers/linear.h"

namespace reprise {

struct AttentionKind {
  GroupedHeads shape;
  int window = 0;  // positions that a query sees, its own last; 0: all
  bool keys_are_values = false;  // values are the keys before norm and rotation
  mlx::core::array frequencies;  // float32 [head_dim / 2]
  float norm_eps = 0;
};

// Whose keys and values each layer reads: its own, but each of the last
// `shared` layers those of the last layer of its type before them. Throws
// std::runtime_error where there is none.
std::vector<int> key_sources(const std::vector<std::string>& types, int shared);

struct MixedAttention {
  Linear q;  // [heads * head_dim, hidden]
  Linear o;  // [hidden, heads * head_dim]
  // [kv_heads * head_dim, hidden]: no k where the layer reads another's keys
  // and values, no v where the keys are the values.
  std::optional<Linear> k, v;
  // [head_dim], that of k with k. The norm of v has no weight.
  mlx::core::array q_norm;
  std::optional<mlx::core::array> k_norm;
};

// "<module>.q_proj", ".o_proj", ".q_norm.weight", and with `own_keys`
// ".k_proj", ".k_norm.weight" and, unless keys are values, ".v_proj". Throws
// as load_grouped_attention.
MixedAttention load_mixed_attention(const Checkpoint& checkpoint,
                                    const std::string& module,
                                    const AttentionKind& kind, int hidden,
                                    bool own_keys);

// A layer's keys and values as this step's reads must see them.
struct KeysAndValues {
  kernels::StateRows keys, values;
};

// Of x [T, hidden], as the step's rows of the layer's families 0 and 1
// (mixed_state()). step.rope is of this kind. The layer must have own keys.
KeysAndValues write_keys_and_values(const mlx::core::array& x,
                                    const MixedAttention& attention,
                                    const AttentionKind& kind,
                                    const LayerStep& step, int layer);

// x [T, hidden] → [T, hidden], scores unscaled: the norms have done it.
mlx::core::array mixed_attention(const mlx::core::array& x,
                                 const MixedAttention& attention,
                                 const AttentionKind& kind,
                                 const LayerStep& step,
                                 const KeysAndValues& state);

// The state of a layer with own keys.
LayerState mixed_state(const AttentionKind& kind, mlx::core::Dtype dtype);

}  // namespace reprise
