#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace reprise {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(
    const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Error{
        errno == ENOENT ? ErrorKind::not_found : ErrorKind::invalid,
        fmt::format("cannot open '{}': {}", path, std::strerror(errno))};
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  void* data = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0)
                        : MAP_FAILED;
  const int map_error = errno;
  ::close(fd);  // the mapping keeps the file alive
  if (!regular)
    return Error{ErrorKind::invalid,
                 fmt::format("'{}' is not a regular file", path)};
  if (size == 0)
    return Error{ErrorKind::corrupt, fmt::format("'{}' is empty", path)};
  if (data == MAP_FAILED)
    return Error{ErrorKind::internal, fmt::format("cannot map '{}': {}", path,
                                                  std::strerror(map_error))};
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = (offset + page - 1) / page * page;
  const std::size_t end = std::min(offset + size, size_) / page * page;
  if (begin < end)
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin,
              MADV_DONTNEED);
}

}  // namespace reprise
