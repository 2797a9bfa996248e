// Reads the header of a mapped GGUF file. Part of gguf_file.cpp, apart only
// for length: use GgufFile::open.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "weights/gguf_file.h"

namespace reprise {

// A cursor over bytes nobody has vouched for. The first read that does not
// fit is remembered as the error and every later one gives zero, so a caller
// may read a record and ask failed() once, before it acts on the values.
class GgufReader {
 public:
  explicit GgufReader(const MappedFile& file)
      : path_(file.path()), bytes_(file.bytes()) {}

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }
  std::size_t position() const { return at_; }
  std::size_t remaining() const { return bytes_.size() - at_; }

  // Keeps the first error only. The message begins with the file.
  template <typename... Args>
  void fail(ErrorKind kind, fmt::format_string<Args...> format,
            Args&&... args) {
    if (failed()) return;
    error_ = Error{
        kind, fmt::format("'{}': {}", path_,
                          fmt::format(format, std::forward<Args>(args)...))};
  }

  // `what` names the value for the error.
  template <typename T>
  T read(std::string_view what) {
    T value{};
    if (!take(sizeof(T), what)) return value;
    std::memcpy(&value, bytes_.data() + at_ - sizeof(T), sizeof(T));
    return value;
  }

  // A 64-bit length, then that many bytes.
  std::string string(std::string_view what, std::uint64_t length_max);

 private:
  // Moves past `size` bytes, or fails.
  bool take(std::uint64_t size, std::string_view what);

  static_assert(std::endian::native == std::endian::little);
  const std::string path_;
  const std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::optional<Error> error_;
};

class GgufParser {
 public:
  explicit GgufParser(std::shared_ptr<const MappedFile> file)
      : file_(std::move(file)), reader_(*file_) {}

  Result<GgufFile> parse();

 private:
  void read_version(GgufFile& out);
  void read_metadata(GgufFile& out, std::uint64_t count);
  GgufValue read_value(std::uint32_t type, const std::string& key);
  GgufArray read_array(const std::string& key);
  GgufTensor read_tensor();
  void read_shape(GgufTensor& tensor);
  void read_tensors(GgufFile& out, std::uint64_t count);
  std::uint64_t alignment(const GgufFile& out);
  void place_tensors(GgufFile& out);

  const std::shared_ptr<const MappedFile> file_;
  GgufReader reader_;
};

}  // namespace reprise
