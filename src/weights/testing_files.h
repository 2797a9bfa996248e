// Small model files for tests, right ones and lying ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::testing {

// A fresh folder, removed at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string path(const std::string& name) const {
    return (path_ / name).string();
  }
  // Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

// The little-endian bytes of a number.
template <typename T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// A 64-bit length and the bytes.
std::string gguf_string(std::string_view text);

struct GgufTestTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // innermost first, as in the file
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};

// Writes a GGUF file as told, whether or not it makes sense.
class GgufWriter {
 public:
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<GgufTestTensor> tensors;
  std::string data;
  std::uint64_t alignment = 32;  // of the data; add() the key as well

  GgufWriter& add(std::string_view key, std::uint32_t type,
                  std::string_view value);
  GgufWriter& add_string(std::string_view key, std::string_view value) {
    return add(key, 8, gguf_string(value));
  }
  GgufWriter& add_uint32(std::string_view key, std::uint32_t value) {
    return add(key, 4, raw(value));
  }
  GgufWriter& add_float(std::string_view key, float value) {
    return add(key, 6, raw(value));
  }
  GgufWriter& add_array(std::string_view key, std::uint32_t type,
                        std::uint64_t count, std::string_view values) {
    return add(key, 9, raw(type) + raw(count) + std::string(values));
  }

  std::string bytes() const { return bytes(tensors.size(), key_count_); }
  std::string bytes(std::uint64_t tensor_count, std::uint64_t key_count) const;
  // Without the tensor data.
  std::size_t header_bytes() const;

 private:
  std::string header(std::uint64_t tensor_count, std::uint64_t key_count) const;

  std::string keys_;
  std::uint64_t key_count_ = 0;
};

// A length, the header's text, the data.
std::string safetensors_bytes(std::string_view header, std::string_view data);

// A file under tests/fixtures.
std::string fixture(const std::string& name);

}  // namespace reprise::testing
