// What a model's files say, without its weights being read. For people and
// scripts (`reprise show`). This header does not show MLX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/kv_quantization.h"
#include "weights/tensor_info.h"

namespace reprise {

struct StateFamilyInfo {
  std::string name;    // "keys"
  std::string growth;  // "per token", as describe() says it
  std::string dtype;
  int row_elements = 0;
  std::size_t row_bytes = 0;  // as the last positions have it
  int bits = 0;               // of an element of those; 0: as dtype has it
  int bits_from = 0;          // the position from which on

  bool operator==(const StateFamilyInfo&) const = default;
};

// Layers that keep the same state.
struct StateLayers {
  std::vector<int> layers;
  std::vector<StateFamilyInfo> families;
  double token_bytes = 0;          // of all these layers, each further token
  std::size_t snapshot_bytes = 0;  // of all these layers, each snapshot
  std::size_t context_bytes = 0;   // of all these layers, the context full
};

struct ModelInspection {
  std::string model_type;
  // Why this program cannot serve it, or empty. Then the rest below is empty.
  std::string refusal;
  int vocabulary = 0;
  int context_tokens = 0;
  int layers = 0;
  std::vector<StateLayers> state;
  std::vector<std::string> unread;  // tensors that the model does not use

  std::vector<TensorInfo> tensors;  // by name; also of a refused model
};

// Opens the checkpoint and builds its model without its weights. `dtype` and
// `kv` as in ModelRunnerOptions. Throws std::runtime_error for what is no
// model.
ModelInspection inspect_model(const std::string& path,
                              const std::string& dtype = "auto",
                              const KvQuantization& kv = {});

}  // namespace reprise
