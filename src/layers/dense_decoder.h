// A whole decoder of the plainest form, for the models that are that: each
// layer adds grouped-query attention, then a gated MLP, both of the RMS norm
// of the residual stream. A model with another block puts the pieces together
// itself (layers/decoder.h, grouped_attention.h, mlp.h).
#pragma once

#include <mlx/array.h>

#include <vector>

#include "layers/decoder.h"
#include "layers/grouped_attention.h"
#include "layers/mlp.h"

namespace reprise {

struct DenseLayer {
  mlx::core::array attention_norm, mlp_norm;  // [hidden]
  GroupedAttention attention;
  GatedMlp mlp;
};

struct DenseDecoder {
  DecoderConfig config;
  mlx::core::Dtype dtype;  // of activations and state
  DecoderEnds ends;
  mlx::core::array frequencies;  // float32 [head_dim / 2]
  bool rope_interleaved = false;
  std::vector<DenseLayer> layers;
};

struct DenseDecoderOptions {
  mlx::core::Dtype dtype = mlx::core::float32;
  bool head_norms = false;        // RMS norm of each head of q and k
  bool rope_interleaved = false;  // rotary pairs are neighbours
};

// Throws std::runtime_error as decoder_config and the loading functions do.
DenseDecoder load_dense_decoder(const Checkpoint& checkpoint,
                                const DenseDecoderOptions& options);

// Keys and values in every layer.
StateLayout state_layout(const DenseDecoder& decoder);

// token_ids int32 [T], logits_rows int32 [L] → float32 [L, vocabulary]. The
// step's state rows are written to `pools` when the result is evaluated.
mlx::core::array dense_forward(const DenseDecoder& decoder,
                               const mlx::core::array& token_ids,
                               const mlx::core::array& logits_rows,
                               const kernels::RaggedBatchPtr& batch,
                               const BlockPools& pools);

}  // namespace reprise
