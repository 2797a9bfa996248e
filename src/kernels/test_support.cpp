#include "kernels/test_support.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <random>

#include "base/limits.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

namespace reprise::kernels::test_support {

namespace mx = mlx::core;

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values)
    v = static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f;
  return values;
}

mx::array make_array(const std::vector<float>& values, const mx::Shape& shape,
                     mx::Dtype dtype) {
  auto a = mx::astype(mx::array(values.begin(), shape, mx::float32), dtype);
  a.eval();
  return a;
}

std::vector<float> values_of(const mx::array& a) {
  auto wide = mx::contiguous(mx::astype(a, mx::float32));
  wide.eval();
  return {wide.data<float>(), wide.data<float>() + wide.size()};
}

std::vector<std::uint8_t> bytes_of(const mx::array& a) {
  auto packed = mx::contiguous(a);
  packed.eval();
  const auto* data = packed.data<std::uint8_t>();
  return {data, data + packed.nbytes()};
}

std::vector<std::uint8_t> row_bytes_of(const mx::array& a, int begin,
                                       int count) {
  return bytes_of(mx::slice(a, {begin, 0}, {begin + count, a.shape(1)}));
}

void add_span(RaggedBatch& batch, int start, int rows,
              const std::vector<std::int32_t>& blocks) {
  batch.spans.push_back({batch.tokens, rows, start, blocks});
  batch.tokens += rows;
  for (int p = start; p < start + rows; ++p)
    batch.pool_rows.push_back(std::int64_t{blocks[p / kBlockTokens]} *
                                  kBlockTokens +
                              p % kBlockTokens);
}

RaggedBatchPtr one_span(int start, int rows,
                        const std::vector<std::int32_t>& blocks) {
  auto batch = std::make_shared<RaggedBatch>();
  add_span(*batch, start, rows, blocks);
  return batch;
}

RaggedBatchPtr slot_spans(const std::vector<SlotSpan>& spans) {
  auto batch = std::make_shared<RaggedBatch>();
  for (const SlotSpan& s : spans) {
    RaggedSpan span;
    span.first_row = batch->tokens;
    span.row_count = s.rows;
    span.slot_from = s.from;
    span.slot_to = s.to;
    batch->spans.push_back(span);
    batch->tokens += s.rows;
  }
  return batch;
}

void with_every_isa(const std::function<void()>& f) {
  const auto before = cpu::current_isa();
  for (auto isa : cpu::available_isas()) {
    cpu::set_isa(isa);
    SCOPED_TRACE(cpu::isa_name(isa));
    f();
  }
  cpu::set_isa(before);
}

void with_threads(int count, const std::function<void()>& f) {
  const int before = cpu::thread_count();
  cpu::set_thread_count(count);
  SCOPED_TRACE(count);
  f();
  cpu::set_thread_count(before);
}

}  // namespace reprise::kernels::test_support
