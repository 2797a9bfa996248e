// Llama 2 and 3 and what shares their form (SmolLM2, ...): RMS norm, rotary
// grouped-query attention, SwiGLU. Reference: transformers, modeling_llama.py.
#include "layers/config.h"
#include "layers/dense_decoder.h"
#include "models/dense_model.h"
#include "models/registry.h"

namespace reprise {
namespace {

std::unique_ptr<Model> make_llama(const Checkpoint& checkpoint,
                                  const ModelOptions& options) {
  // GGUF files of this architecture store the rows of Q and K so that rotary
  // pairs are neighbours; scores do not depend on the order.
  const bool interleaved =
      flag_setting(checkpoint.config(), "rope_interleaved", false);
  return std::make_unique<DenseModel>(load_dense_decoder(
      checkpoint, {.dtype = options.dtype, .rope_interleaved = interleaved}));
}

REGISTER_MODEL("llama", make_llama);

}  // namespace
}  // namespace reprise
