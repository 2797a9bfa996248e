#include "layers/dense_decoder.h"

#include "kernels/ops.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

DenseLayer load_layer(const Checkpoint& checkpoint, const DecoderConfig& c,
                      bool head_norms, int index) {
  const auto norm = [&](const char* part) {
    return load_vector(checkpoint, layer_name(index, part), c.hidden);
  };
  return {.attention_norm = norm("input_layernorm.weight"),
          .mlp_norm = norm("post_attention_layernorm.weight"),
          .attention =
              load_grouped_attention(checkpoint, layer_name(index, "self_attn"),
                                     {.shape = c.attention,
                                      .hidden = c.hidden,
                                      .head_norms = head_norms,
                                      .norm_eps = c.norm_eps}),
          .mlp = load_gated_mlp(checkpoint, layer_name(index, "mlp"), c.hidden,
                                c.intermediate)};
}

}  // namespace

DenseDecoder load_dense_decoder(const Checkpoint& checkpoint,
                                const DenseDecoderOptions& options) {
  const DecoderConfig config = decoder_config(checkpoint.config());
  const auto frequencies =
      load_rope_frequencies(checkpoint, config.attention.head_dim);
  DenseDecoder result{
      .config = config,
      .dtype = options.dtype,
      .ends = load_decoder_ends(checkpoint, config),
      .frequencies = mx::array(frequencies.begin(),
                               {static_cast<int>(frequencies.size())}),
      .rope_interleaved = options.rope_interleaved,
      .layers = {}};
  for (int i = 0; i < config.layers; ++i)
    result.layers.push_back(
        load_layer(checkpoint, config, options.head_norms, i));
  return result;
}

StateLayout state_layout(const DenseDecoder& decoder) {
  return StateLayout(decoder.config.layers,
                     key_value_state(decoder.config.attention, decoder.dtype));
}

mx::array dense_forward(const DenseDecoder& decoder, const mx::array& token_ids,
                        const mx::array& logits_rows,
                        const kernels::RaggedBatchPtr& batch,
                        const BlockPools& pools) {
  const LayerStep step{.pools = pools,
                       .batch = batch,
                       .rope = kernels::rope_table(*batch, decoder.frequencies),
                       .rope_interleaved = decoder.rope_interleaved};
  const float eps = decoder.config.norm_eps;
  mx::array x = embed(decoder.ends.embedding, token_ids, decoder.dtype);
  for (int i = 0; i < decoder.config.layers; ++i) {
    const DenseLayer& layer = decoder.layers[i];
    const auto a = kernels::rms_norm(x, layer.attention_norm, eps);
    x = kernels::add(x, grouped_attention(a, layer.attention, step, i));
    const auto m = kernels::rms_norm(x, layer.mlp_norm, eps);
    x = kernels::add(x, gated_mlp(m, layer.mlp));
  }
  return decoder_logits(x, logits_rows, decoder.ends, eps);
}

}  // namespace reprise
