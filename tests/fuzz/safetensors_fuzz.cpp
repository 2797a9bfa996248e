// A safetensors file of any bytes: what it lets through lies inside the file.
#include "base/check.h"
#include "fuzz/memory_file.h"
#include "weights/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace reprise;
  const fuzz::MemoryFile memory(data, size);
  const auto file = SafetensorsFile::open(memory.path());
  if (!file) {
    CHECK(!file.error().message.empty());
    return 0;
  }
  for (const auto& [name, tensor] : file->tensors()) {
    CHECK(tensor.offset <= size && tensor.bytes <= size - tensor.offset,
          "{} of {} at {}", tensor.bytes, size, tensor.offset);
    std::uint64_t bytes = item_bytes(tensor.dtype);
    for (const int n : tensor.shape) {
      CHECK(n >= 0, "{}", n);
      bytes *= static_cast<std::uint64_t>(n);
    }
    CHECK(bytes == tensor.bytes, "{}: {}, not {}", name, bytes, tensor.bytes);
  }
  return 0;
}
