// What the tests of this folder share: numbers, pools, batches, bits.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/ragged_batch.h"

namespace reprise::kernels::test_support {

// Uniform in [-1, 1), the same for the same seed everywhere.
std::vector<float> random_floats(std::size_t count, std::uint64_t seed);

// Rounded to `dtype`.
mlx::core::array make_array(const std::vector<float>& values,
                            const mlx::core::Shape& shape,
                            mlx::core::Dtype dtype = mlx::core::float32);

// Evaluates. The values as float32; the bytes in row order.
std::vector<float> values_of(const mlx::core::array& a);
std::vector<std::uint8_t> bytes_of(const mlx::core::array& a);

// Bytes of rows [begin, begin + count) of an [n, dim] array.
std::vector<std::uint8_t> row_bytes_of(const mlx::core::array& a, int begin,
                                       int count);

// Adds a span and where its rows are written.
void add_span(RaggedBatch& batch, int start, int rows,
              const std::vector<std::int32_t>& blocks);

RaggedBatchPtr one_span(int start, int rows,
                        const std::vector<std::int32_t>& blocks);

// A batch of spans that go from one state slot to another.
struct SlotSpan {
  int rows, from, to;
};
RaggedBatchPtr slot_spans(const std::vector<SlotSpan>& spans);

// Runs f with each instruction set of this processor, and with one and two
// threads; puts back what was set.
void with_every_isa(const std::function<void()>& f);
void with_threads(int count, const std::function<void()>& f);

}  // namespace reprise::kernels::test_support
