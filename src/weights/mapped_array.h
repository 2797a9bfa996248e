// MLX arrays out of a mapped file.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>

#include "base/mapped_file.h"

namespace reprise {

// The bytes at `offset` as an array. On the CPU it shares the mapping and
// keeps the file open as long as it lives; MLX never writes into it. It is a
// copy, and the file's pages are given back, on other devices, where the
// offset is not a multiple of the item's size, and below 64 KiB. Call on the
// thread that will use it. The caller has checked that the bytes lie inside
// the file.
mlx::core::array mapped_array(const std::shared_ptr<const MappedFile>& file,
                              std::size_t offset, mlx::core::Shape shape,
                              mlx::core::Dtype dtype);

// An array whose memory the caller fills before anybody reads it: writable
// through data<T>(), on every device.
mlx::core::array unfilled_array(mlx::core::Shape shape, mlx::core::Dtype dtype);

// Gives the file's pages under [offset, offset + size) back, and those around
// it that the system mapped along with them.
void release_pages(const MappedFile& file, std::size_t offset,
                   std::size_t size);

}  // namespace reprise
