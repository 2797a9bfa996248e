// A file in memory with a path: for readers that map files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace reprise::fuzz {

class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size)
      : descriptor_(::memfd_create("fuzz", 0)) {
    std::size_t done = 0;
    while (descriptor_ >= 0 && done < size) {
      const auto n = ::write(descriptor_, data + done, size - done);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    if (descriptor_ >= 0 && done == size) return;
    std::perror("memfd");
    std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  const int descriptor_;
};

}  // namespace reprise::fuzz
