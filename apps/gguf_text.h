// The text side of a GGUF file, from its own metadata.
#pragma once

#include <string>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text_model.h"
#include "weights/gguf_file.h"

namespace reprise {

// Errors: corrupt when a part of the vocabulary is missing.
Result<GgufVocabulary> gguf_vocabulary(const GgufFile& file);

Result<TextModel> load_gguf_text(const std::string& path);

}  // namespace reprise
