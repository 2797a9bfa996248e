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

struct PoolShape {
  mx::Shape shape;
  mx::Dtype dtype;

  std::size_t bytes() const {
    return static_cast<std::size_t>(shape[0]) *
           static_cast<std::size_t>(shape[1]) * size_of(dtype);
  }
};

// One pool for each family in order of layers, and where it is quantized a
// second one behind.
std::vector<PoolShape> pool_shapes(const StateLayout& layout, int block_count,
                                   int slot_count) {
  std::vector<PoolShape> shapes;
  for (const LayerState& layer : layout)
    for (const StateFamily& family : layer) {
      const int per_block = rows_per_block(family.growth);
      const int rows = per_block > 0 ? per_block * block_count : slot_count;
      shapes.push_back({{rows, family.row_elements}, family.dtype});
      if (family.quantized)
        shapes.push_back(
            {{rows, static_cast<int>(family.row_bytes())}, mx::uint8});
    }
  return shapes;
}

std::vector<mx::array> map_pools(const std::vector<PoolShape>& shapes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t total = 0;
  for (const PoolShape& shape : shapes)
    total += page + round_up(shape.bytes(), page);
  auto mapping = std::make_shared<Mapping>(std::max(total, page));

  std::vector<mx::array> pools;
  std::size_t offset = 0;
  for (const PoolShape& shape : shapes) {
    pools.push_back(pool_in(mapping, offset + page, shape.bytes(), shape.shape,
                            shape.dtype));
    offset += page + round_up(shape.bytes(), page);
  }
  return pools;
}

std::vector<mx::array> allocate_pools(const std::vector<PoolShape>& shapes) {
  std::vector<mx::array> pools;
  for (const PoolShape& shape : shapes)
    pools.push_back(mx::zeros(shape.shape, shape.dtype));
  mx::eval(pools);
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
  const auto shapes = pool_shapes(layout_, block_count, slot_count);
  const bool on_cpu = mx::default_device().type == mx::Device::DeviceType::cpu;
  auto pools = on_cpu ? map_pools(shapes) : allocate_pools(shapes);
  auto next = pools.begin();
  pools_.resize(layout_.size());
  for (std::size_t l = 0; l < layout_.size(); ++l)
    for (const StateFamily& family : layout_[l]) {
      kernels::StateRows rows{.plain = *next++,
                              .dim = family.head_dim,
                              .quantized = std::nullopt,
                              .codec = {},
                              .quantized_from = 0};
      if (family.quantized) {
        rows.quantized = *next++;
        rows.codec = family.quantized->codec;
        rows.quantized_from = family.quantized->from;
      }
      pools_[l].push_back(std::move(rows));
    }
}

}  // namespace reprise
