// A whole file, read-only, mapped into memory. Pages are read on first touch
// and can be given back with release().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace reprise {

class MappedFile {
 public:
  // Errors: not_found (with the path and the system's reason), corrupt for an
  // empty file, invalid for something that is not a regular file.
  static Result<std::shared_ptr<const MappedFile>> open(
      const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Tells the system that bytes [offset, offset + size) are not needed soon:
  // they stop counting into the process's resident memory. They stay
  // readable. Any thread.
  void release(std::size_t offset, std::size_t size) const;

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  const std::string path_;
  const std::byte* const data_;
  const std::size_t size_;
};

}  // namespace reprise
