// Qwen3, the dense ones: as Llama, with an RMS norm of each head of q and k
// before the rotation. Reference: transformers, modeling_qwen3.py.
#include <stdexcept>

#include "layers/config.h"
#include "layers/dense_decoder.h"
#include "models/dense_model.h"
#include "models/registry.h"

namespace reprise {
namespace {

std::unique_ptr<Model> make_qwen3(const Checkpoint& checkpoint,
                                  const ModelOptions& options) {
  // A width in "sliding_window" means nothing without this.
  if (flag_setting(checkpoint.config(), "use_sliding_window", false))
    throw std::runtime_error(
        "the configuration's \"use_sliding_window\" is true; attention over a "
        "window is not served for this model type");
  // GGUF files of this architecture keep Hugging Face's order of rows.
  return std::make_unique<DenseModel>(load_dense_decoder(
      checkpoint, {.dtype = options.dtype, .head_norms = true}));
}

REGISTER_MODEL("qwen3", make_qwen3);

}  // namespace
}  // namespace reprise
