// A safetensors file, opened: where its tensors lie and what they are. Reads
// no tensor data, knows no MLX. Format: huggingface/safetensors, README
// "Format". Immutable after open(); any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace reprise {

// The dtypes that MLX has as well.
enum class SafetensorsType {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64
};

std::size_t item_bytes(SafetensorsType type);

struct SafetensorsTensor {
  SafetensorsType dtype = SafetensorsType::f32;
  std::vector<std::int32_t> shape;
  std::size_t offset = 0;  // from the beginning of the file
  std::size_t bytes = 0;
};

class SafetensorsFile {
 public:
  // Checks every size, offset, type and shape against the file. Errors: as
  // MappedFile::open; corrupt for what contradicts itself or the file's size;
  // unsupported for a dtype that MLX does not have, by name.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  const std::map<std::string, SafetensorsTensor>& tensors() const {
    return tensors_;
  }

 private:
  SafetensorsFile() = default;

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, SafetensorsTensor> tensors_;
};

}  // namespace reprise
