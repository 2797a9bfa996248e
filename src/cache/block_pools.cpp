#include "cache/block_pools.h"

#include <fmt/format.h>
#include <mlx/allocator.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/size.h"

namespace reprise {
namespace {

namespace mx = mlx::core;

// MLX's CPU allocator keeps a buffer's size in front of its data, and a
// buffer's data begins behind that word.
constexpr std::size_t kBufferHeader = sizeof(std::size_t);

class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED)
      throw std::runtime_error(fmt::format(
          "[state] cannot reserve {} for state: {}. Lower --state-memory.",
          format_size(bytes), std::strerror(errno)));
    // A huge page would make one row cost 2 MiB in every pool.
    ::madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  ~Mapping() { ::munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* at(std::size_t offset) { return static_cast<char*>(data_) + offset; }

 private:
  void* data_;
  const std::size_t bytes_;
};

std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

// Each pool starts on a page of its own, its header in the page before.
mx::array pool_in(const std::shared_ptr<Mapping>& mapping, std::size_t offset,
                  std::size_t bytes, mx::Shape shape, mx::Dtype dtype) {
  char* header = mapping->at(offset - kBufferHeader);
  std::memcpy(header, &bytes, sizeof(bytes));
  mx::allocator::Data data(mx::allocator::Buffer(header),
                           [mapping](mx::allocator::Buffer) {});
  return mx::array(std::move(data), std::move(shape), dtype);
}

// Rows of each pool, by layer and family.
std::vector<std::vector<int>> pool_rows(const StateLayout& layout,
                                        int block_count, int slot_count) {
  std::vector<std::vector<int>> rows(layout.size());
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (const StateFamily& family : layout[l]) {
      const int per_block = rows_per_block(family.growth);
      rows[l].push_back(per_block > 0 ? per_block * block_count : slot_count);
    }
  return rows;
}

std::vector<std::vector<mx::array>> map_pools(
    const StateLayout& layout, const std::vector<std::vector<int>>& rows) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto pool_bytes = [&](std::size_t l, std::size_t f) {
    return layout[l][f].row_bytes() * static_cast<std::size_t>(rows[l][f]);
  };
  std::size_t total = 0;
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (std::size_t f = 0; f < layout[l].size(); ++f)
      total += page + round_up(pool_bytes(l, f), page);
  auto mapping = std::make_shared<Mapping>(std::max(total, page));

  std::vector<std::vector<mx::array>> pools(layout.size());
  std::size_t offset = 0;
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (std::size_t f = 0; f < layout[l].size(); ++f) {
      const std::size_t bytes = pool_bytes(l, f);
      pools[l].push_back(pool_in(mapping, offset + page, bytes,
                                 {rows[l][f], layout[l][f].row_elements},
                                 layout[l][f].dtype));
      offset += page + round_up(bytes, page);
    }
  return pools;
}

std::vector<std::vector<mx::array>> allocate_pools(
    const StateLayout& layout, const std::vector<std::vector<int>>& rows) {
  std::vector<std::vector<mx::array>> pools(layout.size());
  std::vector<mx::array> all;
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (std::size_t f = 0; f < layout[l].size(); ++f) {
      pools[l].push_back(mx::zeros({rows[l][f], layout[l][f].row_elements},
                                   layout[l][f].dtype));
      all.push_back(pools[l].back());
    }
  mx::eval(all);
  return pools;
}

}  // namespace

BlockPools::BlockPools(StateLayout layout, int block_count, int slot_count)
    : layout_(std::move(layout)),
      block_count_(block_count),
      slot_count_(slot_count) {
  if (block_count < 1)
    throw std::invalid_argument(fmt::format(
        "[state] {} blocks hold no state: raise --state-memory to at least {}",
        block_count, format_size(block_bytes(layout_))));
  if ((slot_count > 0) != (snapshot_bytes(layout_) > 0))
    throw std::invalid_argument(
        fmt::format("[state] {} slots for snapshots of {}", slot_count,
                    format_size(snapshot_bytes(layout_))));
  const auto rows = pool_rows(layout_, block_count, slot_count);
  const bool on_cpu = mx::default_device().type == mx::Device::DeviceType::cpu;
  pools_ = on_cpu ? map_pools(layout_, rows) : allocate_pools(layout_, rows);
}

}  // namespace reprise
