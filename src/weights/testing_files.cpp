#include "weights/testing_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace reprise::testing {

TempFolder::TempFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "reprise-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw std::runtime_error("cannot make a temporary folder: " + name);
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::write(const std::string& name,
                              std::string_view bytes) const {
  // Some file systems write a file through when it replaces its own text.
  std::filesystem::remove(path_ / name);
  std::ofstream file(path_ / name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path(name));
  return path(name);
}

std::string gguf_string(std::string_view text) {
  return raw(std::uint64_t{text.size()}) + std::string(text);
}

GgufWriter& GgufWriter::add(std::string_view key, std::uint32_t type,
                            std::string_view value) {
  keys_ += gguf_string(key) + raw(type);
  keys_ += value;
  ++key_count_;
  return *this;
}

std::string GgufWriter::header(std::uint64_t tensor_count,
                               std::uint64_t key_count) const {
  std::string out = magic + raw(version) + raw(tensor_count) + raw(key_count);
  out += keys_;
  for (const GgufTestTensor& tensor : tensors) {
    out += gguf_string(tensor.name);
    out += raw(static_cast<std::uint32_t>(tensor.dims.size()));
    for (const std::uint64_t size : tensor.dims) out += raw(size);
    out += raw(tensor.type) + raw(tensor.offset);
  }
  return out;
}

std::size_t GgufWriter::header_bytes() const {
  return header(tensors.size(), key_count_).size();
}

std::string GgufWriter::bytes(std::uint64_t tensor_count,
                              std::uint64_t key_count) const {
  std::string out = header(tensor_count, key_count);
  out.resize((out.size() + alignment - 1) / alignment * alignment);
  return out + data;
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return raw(std::uint64_t{header.size()}) + std::string(header) +
         std::string(data);
}

std::string fixture(const std::string& name) {
  return std::string(REPRISE_SOURCE_DIR) + "/tests/fixtures/" + name;
}

}  // namespace reprise::testing
