// A Checkpoint in a folder: config.json and safetensors files, with Hugging
// Face's tensor names, plain or quantized by MLX.
#pragma once

#include <memory>
#include <string>

#include "weights/checkpoint.h"

namespace reprise {

// As Checkpoint::open, for a folder. With model.safetensors.index.json, the
// tensors that it lists, and where it names a file that is not there, those of
// a model.safetensors that has them all; without, those of all
// model*.safetensors.
Result<std::unique_ptr<Checkpoint>> open_safetensors_checkpoint(
    const std::string& folder,
    Checkpoint::Contents contents = Checkpoint::Contents::values);

}  // namespace reprise
