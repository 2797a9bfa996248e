#include "weights/mapped_array.h"

#include <mlx/allocator.h>
#include <mlx/device.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace reprise {
namespace {

using mlx::core::array;
using mlx::core::Dtype;
using mlx::core::Shape;
namespace allocator = mlx::core::allocator;

// MLX's CPU allocator puts the size of a buffer in front of its data, and a
// Buffer points there.
constexpr std::size_t kBufferHeader = sizeof(std::size_t);

// A fault maps the pages around it that the system has at hand, in windows of
// this size (Linux: fault_around_bytes).
constexpr std::size_t kFaultWindow = 64 << 10;

// Whether Buffers are what kBufferHeader says: true for the allocator of a
// build without a GPU, whatever device is the default. In the others a Buffer
// points to an object of the driver.
bool buffers_are_pointers() {
  static const bool result = [] {
    allocator::Data probe = allocator::malloc(64);
    allocator::Buffer buffer = probe.buffer();
    return buffer.raw_ptr() == static_cast<char*>(buffer.ptr()) + kBufferHeader;
  }();
  return result;
}

// A smaller tensor is copied: sharing it would keep a whole window of pages
// resident, most of them of tensors beside it that were repacked.
constexpr std::size_t kShareBytesMin = kFaultWindow;

bool can_share(std::size_t offset, std::size_t bytes, std::size_t item_size) {
  return bytes >= kShareBytesMin && offset % item_size == 0 &&
         offset >= kBufferHeader &&
         mlx::core::default_device() == mlx::core::Device::cpu &&
         buffers_are_pointers();
}

// MLX never takes a buffer that it does not own for the result of another
// operation (array::is_donatable), so the read-only pages stay unwritten.
array shared_array(const std::shared_ptr<const MappedFile>& file,
                   std::size_t offset, Shape shape, Dtype dtype) {
  auto* data = const_cast<std::byte*>(file->bytes().data()) + offset;
  return array(allocator::Data(allocator::Buffer(data - kBufferHeader),
                               [file](allocator::Buffer) {}),
               std::move(shape), dtype);
}

}  // namespace

array mapped_array(const std::shared_ptr<const MappedFile>& file,
                   std::size_t offset, Shape shape, Dtype dtype) {
  std::size_t bytes = mlx::core::size_of(dtype);
  for (const auto size : shape) bytes *= static_cast<std::size_t>(size);
  CHECK(
      offset <= file->bytes().size() && bytes <= file->bytes().size() - offset,
      "{} bytes at {} of {}", bytes, offset, file->path());
  if (can_share(offset, bytes, mlx::core::size_of(dtype)))
    return shared_array(file, offset, std::move(shape), dtype);
  array result = unfilled_array(std::move(shape), dtype);
  if (bytes > 0)
    std::memcpy(result.data<char>(), file->bytes().data() + offset, bytes);
  release_pages(*file, offset, bytes);
  return result;
}

array unfilled_array(Shape shape, Dtype dtype) {
  std::size_t bytes = mlx::core::size_of(dtype);
  for (const auto size : shape) bytes *= static_cast<std::size_t>(size);
  return array(allocator::malloc(bytes), std::move(shape), dtype);
}

void release_pages(const MappedFile& file, std::size_t offset,
                   std::size_t size) {
  const std::size_t before = std::min(offset, kFaultWindow);
  const std::size_t after =
      std::min(file.bytes().size() - offset - size, kFaultWindow);
  file.release(offset - before, before + size + after);
}

}  // namespace reprise
