// A GGUF container (versions 2 and 3, little-endian), opened: its metadata by
// key and where its tensors lie. Knows no architecture and no MLX, so the app
// can also read the tokenizer and the chat template with it. Format: ggml's
// docs/gguf.md. Immutable after open(); any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace reprise {

// The type number of a tensor as the file has it; any number may occur. The
// named ones are those that gguf_quant.h can turn into arrays.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  bf16 = 30,
};

// Elements of a row are stored in blocks of `elements` that take `bytes`.
struct GgufTypeInfo {
  GgufType type;
  const char* name;  // "Q4_K"
  std::uint64_t elements;
  std::uint64_t bytes;
};

// Null for a number that is not in ggml's list.
const GgufTypeInfo* gguf_type_info(GgufType type);

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  // Outermost first, the reverse of the file's order; each in 1 .. 2^31 - 1.
  std::vector<std::int32_t> shape;
  std::size_t offset = 0;  // from the beginning of the file
  std::size_t bytes = 0;
};

// Integers of all widths are widened, floats too.
using GgufArray = std::variant<std::vector<std::uint64_t>,
                               std::vector<std::int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool,
                               std::string, GgufArray>;

class GgufFile {
 public:
  // Checks every count, length, offset and size against the file before it is
  // used; reads no tensor data. Errors: as MappedFile::open; corrupt for what
  // contradicts itself or the file's size; unsupported for another version or
  // byte order, a tensor type that ggml does not list, an array of arrays.
  static Result<GgufFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  std::uint32_t version() const { return version_; }

  // In the file's order; names are unique, their bytes do not overlap.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;  // null if missing

  // A value of that kind, or nothing if the key is missing or holds another
  // kind. Pointers live as long as this object.
  const std::string* string(std::string_view key) const;
  const std::vector<std::string>* strings(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;  // or an integer
  std::optional<bool> boolean(std::string_view key) const;

 private:
  friend class GgufParser;
  GgufFile() = default;

  std::shared_ptr<const MappedFile> file_;
  std::uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace reprise
