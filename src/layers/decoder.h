// The frame that decoders of Hugging Face's common form share: what their
// configurations say, and the two ends of the residual stream. What lies
// between, and in which order, is each model's own file.
#pragma once

#include <mlx/array.h>

#include <nlohmann/json.hpp>
#include <string>

#include "layers/grouped_attention.h"
#include "layers/linear.h"

namespace reprise {

struct DecoderConfig {
  int vocabulary = 0;  // rows of the embedding and of the head
  int hidden = 0;
  int intermediate = 0;  // of the MLP
  int layers = 0;
  GroupedHeads attention;
  int context = 0;  // positions it was trained for
  float norm_eps = 0;
  bool tied = false;  // the head is the embedding
};

// What every decoder has: all of the above but `attention`, and no opinion on
// what lies between the ends.
DecoderConfig decoder_frame(const nlohmann::json& config);

// Reads config.json's keys. Throws std::runtime_error for what is missing or
// contradictory, and with the list of what is served for an activation
// (hidden_act), a kind of attention (layer_types) or a partial rotation that
// this frame does not have.
DecoderConfig decoder_config(const nlohmann::json& config);

// Where a checkpoint keeps its decoder. One of text alone has it in "model"
// and "lm_head"; beside encoders of other inputs it lies deeper, and not where
// MLX's conversions put it.
struct DecoderNames {
  std::string body = "model";
  std::string head = "lm_head";

  std::string layer(int index) const;  // "model.layers.3"
};

// The names by which the checkpoint has an embedding; of text alone if none.
DecoderNames decoder_names(const Checkpoint& checkpoint);

// "model.layers.3.<part>"
std::string layer_name(int layer, const char* part);

struct DecoderEnds {
  Linear embedding;       // [vocabulary, hidden]
  mlx::core::array norm;  // [hidden]
  Linear head;            // [vocabulary, hidden]
};

// "model.embed_tokens", "model.norm" and, unless tied, "lm_head".
DecoderEnds load_decoder_ends(const Checkpoint& checkpoint,
                              const DecoderConfig& config,
                              const DecoderNames& names = {});

// The last norm and the head, for rows `rows` (int32 [L]) of x [T, hidden]
// only: float32 [L, vocabulary].
mlx::core::array decoder_logits(const mlx::core::array& x,
                                const mlx::core::array& rows,
                                const DecoderEnds& ends, float norm_eps);

}  // namespace reprise
