// Random matrices of every storage form, and what they mean, for the tests of
// matmul and take_rows.
#pragma once

#include <mlx/array.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace reprise::kernels::testing {

namespace mx = mlx::core;

inline const std::vector<mx::Dtype> kFloats = {mx::float32, mx::bfloat16,
                                               mx::float16};

inline std::string type_name(mx::Dtype type) {
  return type == mx::float32    ? "float32"
         : type == mx::bfloat16 ? "bfloat16"
                                : "float16";
}

// Half the distance of two neighbours of 1.
inline double rounding(mx::Dtype type) {
  return type == mx::float32    ? 0x1p-24
         : type == mx::bfloat16 ? 0x1p-8
                                : 0x1p-11;
}

class RandomArrays {
 public:
  array floats(int rows, int columns, mx::Dtype type, float size = 1) {
    std::normal_distribution<float> normal(0, size);
    std::vector<float> v(static_cast<std::size_t>(rows) * columns);
    for (float& x : v) x = normal(engine_);
    return evaluated(mx::astype(array(v.begin(), {rows, columns}), type));
  }

  // Every field takes all its values; scales and biases of either sign.
  QuantizedMatrix quantized(int rows, int columns, int bits, int group,
                            mx::Dtype scale_type) {
    std::vector<std::uint32_t> v(static_cast<std::size_t>(rows) * columns *
                                 bits / 32);
    for (auto& x : v) x = static_cast<std::uint32_t>(engine_());
    const int groups = columns / group;
    return {array(v.begin(), {rows, columns * bits / 32}, mx::uint32),
            floats(rows, groups, scale_type, 0.1f),
            floats(rows, groups, scale_type, 0.5f), group, bits};
  }

 private:
  static array evaluated(array a) {
    mx::eval(a);
    return a;
  }
  std::mt19937 engine_{20};
};

// Either form.
struct Weights {
  std::string name;
  std::optional<array> dense;
  std::optional<QuantizedMatrix> quantized;

  int rows() const { return dense ? dense->shape(0) : quantized->rows(); }
  int columns() const { return dense ? dense->shape(1) : quantized->columns(); }
};

inline Weights dense_weights(RandomArrays& random, int rows, int columns,
                             mx::Dtype type) {
  return {type_name(type), random.floats(rows, columns, type), {}};
}

inline Weights quantized_weights(RandomArrays& random, int rows, int columns,
                                 int bits, int group, mx::Dtype type) {
  return {std::to_string(bits) + " bits, groups of " + std::to_string(group) +
              ", scales " + type_name(type),
          {},
          random.quantized(rows, columns, bits, group, type)};
}

// All storage forms of one shape; columns must be a multiple of 128.
inline std::vector<Weights> all_weights(RandomArrays& random, int rows,
                                        int columns) {
  std::vector<Weights> all;
  for (auto type : kFloats)
    all.push_back(dense_weights(random, rows, columns, type));
  for (int bits : {2, 3, 4, 5, 6, 8})
    for (int i = 0; i < 3; ++i)
      for (int group : {32, 64, 128})
        if (bits == 4 || (group / 64 + bits) % 3 == i)
          all.push_back(quantized_weights(random, rows, columns, bits, group,
                                          kFloats[i]));
  return all;
}

inline std::vector<float> to_floats(const array& a) {
  array wide = mx::contiguous(mx::astype(a, mx::float32));
  mx::eval(wide);
  return {wide.data<float>(), wide.data<float>() + wide.size()};
}

// Row by row in float32, field by field: what the matrix means.
inline std::vector<float> meaning(const Weights& w) {
  if (w.dense) return to_floats(*w.dense);
  const QuantizedMatrix& q = *w.quantized;
  const auto scales = to_floats(q.scales), biases = to_floats(q.biases);
  const auto* words = q.words.data<std::uint32_t>();
  std::vector<float> out;
  for (int n = 0; n < q.rows(); ++n)
    for (int k = 0; k < q.columns(); ++k) {
      std::uint32_t field = 0;
      for (int b = 0; b < q.bits; ++b) {
        const std::int64_t bit = std::int64_t{k} * q.bits + b;
        const std::uint32_t word =
            words[n * std::int64_t{q.words.shape(1)} + bit / 32];
        field |= (word >> bit % 32 & 1) << b;
      }
      const auto group =
          static_cast<std::size_t>(n) * q.scales.shape(1) + k / q.group_size;
      out.push_back(
          std::fma(static_cast<float>(field), scales[group], biases[group]));
    }
  return out;
}

inline std::vector<std::byte> bits_of(const array& a) {
  array copy = mx::contiguous(a);
  mx::eval(copy);
  const auto* p = reinterpret_cast<const std::byte*>(copy.data<char>());
  return {p, p + copy.nbytes()};
}

// Restores instruction set and thread count.
class KernelSettings {
 public:
  ~KernelSettings() {
    cpu::set_isa(isa_);
    cpu::set_thread_count(threads_);
  }

 private:
  const cpu::Isa isa_ = cpu::current_isa();
  const int threads_ = cpu::thread_count();
};

}  // namespace reprise::kernels::testing
