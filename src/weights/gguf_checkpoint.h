// A Checkpoint in a single GGUF file.
#pragma once

#include <memory>
#include <string>

#include "weights/checkpoint.h"

namespace reprise {

// As Checkpoint::open, for a file. Metadata is read into config() and let go;
// who needs the tokenizer opens a GgufFile of its own.
Result<std::unique_ptr<Checkpoint>> open_gguf_checkpoint(
    const std::string& path,
    Checkpoint::Contents contents = Checkpoint::Contents::values);

}  // namespace reprise
