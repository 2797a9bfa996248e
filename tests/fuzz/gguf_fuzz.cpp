// A GGUF file of any bytes: opened, its settings read, its blocks repacked.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "fuzz/memory_file.h"
#include "weights/gguf_config.h"
#include "weights/gguf_quant.h"

namespace {

using namespace reprise;

// Every tensor lies inside the file, as its readers rely on.
void check_places(const GgufFile& file) {
  const std::size_t size = file.file()->bytes().size();
  for (const GgufTensor& tensor : file.tensors()) {
    CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
          "{} of {} at {}", tensor.bytes, size, tensor.offset);
    for (const int n : tensor.shape) CHECK(n > 0, "{}", n);
  }
}

void repack(const GgufFile& file, const GgufTensor& tensor) {
  const int bits = gguf_quant_bits(tensor.type);
  if (bits == 0) return;
  const auto blocks = file.file()->bytes().subspan(tensor.offset, tensor.bytes);
  const std::size_t count = tensor.bytes / gguf_type_info(tensor.type)->bytes;
  std::vector<std::uint32_t> words(count * static_cast<std::size_t>(bits));
  std::vector<float> scales(count), biases(count);
  gguf_repack(tensor.type, blocks, 0,
              {.words = words.data(),
               .scales = scales.data(),
               .biases = biases.data(),
               .half = gguf_biases_fit_half(tensor.type, blocks)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const fuzz::MemoryFile memory(data, size);
  const auto file = GgufFile::open(memory.path());
  if (!file) {
    CHECK(!file.error().message.empty());
    return 0;
  }
  check_places(*file);
  for (const GgufTensor& tensor : file->tensors()) repack(*file, tensor);
  (void)gguf_config(*file);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
                          "general.alignment", "general.name"}) {
    (void)file->string(key);
    (void)file->strings(key);
    (void)file->integer(key);
    (void)file->integers(key);
    (void)file->number(key);
    (void)file->boolean(key);
  }
  return 0;
}
