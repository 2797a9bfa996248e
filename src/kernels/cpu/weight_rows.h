// Rows of a weight matrix as float32, block by block. Include after vec16.h,
// in a file compiled for one instruction set.
#pragma once

#include "kernels/cpu/matmul_task.h"
#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

inline int smaller(int a, int b) {
  return a < b ? a : b;
}

// Calls f(pointer) with data as a pointer to elements of `type`.
template <typename F>
inline void with_elements(const char* data, ElementType type, F f) {
  switch (type) {
    case ElementType::float32:
      return f(reinterpret_cast<const float*>(data));
    case ElementType::bfloat16:
      return f(reinterpret_cast<const BFloat16*>(data));
    case ElementType::float16:
      return f(reinterpret_cast<const Float16*>(data));
  }
}

// Calls f.template operator()<bits>().
template <typename F>
inline void with_bits(int bits, F f) {
  switch (bits) {
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    case 6:
      return f.template operator()<6>();
    case 8:
      return f.template operator()<8>();
  }
}

// Elements [begin, begin + count) as float32; out is filled up with zeros to
// a multiple of 16.
template <typename T>
inline void widen(const T* p, int begin, int count, float* out) {
  p += begin;
  int i = 0;
  for (; i + 16 <= count; i += 16) store(out + i, load(p + i));
  if (i < count) store(out + i, load_first(p + i, count - i));
}

// Scales and biases of some groups of neighbouring rows.
inline constexpr int kGroupsAtOnce = 32;
template <int kRows>
struct GroupScales {
  alignas(64) float scale[kRows][kGroupsAtOnce];
  alignas(64) float bias[kRows][kGroupsAtOnce];

  void read(const WeightMatrix& w, int row, int group, int count) {
    with_elements(nullptr, w.type, [&]<typename T>(const T*) {
      const char* scales = w.scales + row * w.scale_row_bytes;
      const char* biases = w.biases + row * w.bias_row_bytes;
      for (int r = 0; r < kRows; ++r) {
        widen(reinterpret_cast<const T*>(scales), group, count, scale[r]);
        widen(reinterpret_cast<const T*>(biases), group, count, bias[r]);
        scales += w.scale_row_bytes;
        biases += w.bias_row_bytes;
      }
    });
  }
};

template <int kBits>
inline void expand_quantized(const WeightMatrix& w, int row, int begin,
                             int count, float* out) {
  GroupScales<1> groups;
  const auto* p = reinterpret_cast<const std::uint8_t*>(
      w.data + row * w.row_bytes + std::int64_t{begin} * kBits / 8);
  for (int k = 0; k < count; k += kGroupsAtOnce * w.group_size) {
    const int first = (begin + k) / w.group_size;
    const int n = smaller(kGroupsAtOnce, (count - k) / w.group_size);
    groups.read(w, row, first, n);
    for (int g = 0; g < n; ++g) {
      const Dequantizer<kBits> dequantize(groups.scale[0][g],
                                          groups.bias[0][g]);
      for (int j = 0; j < w.group_size; j += 16) {
        store(out, dequantize(p));
        out += 16;
        p += 2 * kBits;
      }
    }
  }
}

// Columns [begin, begin + count) of a row; begin is a multiple of 128, count
// too, or it ends at the last column. Zeros follow to a multiple of 16.
inline void expand(const WeightMatrix& w, int row, int begin, int count,
                   float* out) {
  if (w.bits == 0)
    return with_elements(w.data + row * w.row_bytes, w.type,
                         [&](auto* p) { widen(p, begin, count, out); });
  with_bits(w.bits, [&]<int kBits>() {
    expand_quantized<kBits>(w, row, begin, count, out);
  });
}

// `count` floats to elements [begin, begin + count) of `type` at out.
inline void narrow(const float* in, int count, ElementType type, char* out,
                   std::int64_t begin) {
  with_elements(out, type, [&]<typename T>(const T* elements) {
    T* to = const_cast<T*>(elements) + begin;  // out is not const
    int i = 0;
    for (; i + 16 <= count; i += 16) store(to + i, load(in + i));
    if (i < count)
      store_first(to + i, load_first(in + i, count - i), count - i);
  });
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
