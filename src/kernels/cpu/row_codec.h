// Rows of state, quantized and back. For files compiled for one instruction
// set.
#pragma once

#include "kernels/cpu/state_part.h"
#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

template <typename T, int kBits>
void dequantize_elements_as(const RowFormat& format, const char* row, int begin,
                            int count, float* out) {
  constexpr int kGroupsAtOnce = 16;
  const T* scales = reinterpret_cast<const T*>(row + format.words_bytes);
  const T* biases = scales + format.groups;
  const auto* fields = reinterpret_cast<const std::uint8_t*>(row);
  const int size = format.group_size;
  const int end = begin + count;
  const int groups = (end + size - 1) / size;
  int k = begin;
  for (int g = begin / size; g < groups; g += kGroupsAtOnce) {
    const int n = groups - g < kGroupsAtOnce ? groups - g : kGroupsAtOnce;
    alignas(64) float scale[kGroupsAtOnce], bias[kGroupsAtOnce];
    store(scale, load_first(scales + g, n));
    store(bias, load_first(biases + g, n));
    for (int i = 0; i < n; ++i) {
      const Dequantizer<kBits> dequantize(scale[i], bias[i]);
      const int stop = (g + i + 1) * size < end ? (g + i + 1) * size : end;
      for (; k < stop; k += 16)
        store(out + (k - begin), dequantize(fields + k * kBits / 8));
    }
  }
}

// Elements [begin, begin + count) of a quantized row, both multiples of 16,
// each fma(field, scale, bias).
template <typename T>
void dequantize_elements(const RowFormat& format, const char* row, int begin,
                         int count, float* out) {
  if (format.bits == 4)
    dequantize_elements_as<T, 4>(format, row, begin, count, out);
  else
    dequantize_elements_as<T, 8>(format, row, begin, count, out);
}

struct GroupScale {
  float scale, bias;
};

// MLX's choice: the end of the range that is farther from zero is met
// exactly, and so is zero. What holds no number has no scale.
inline GroupScale choose_scale(float low, float high, float poison,
                               float steps) {
  const bool low_is_farther = __builtin_fabsf(low) > __builtin_fabsf(high);
  const float range = (high - low) / steps;
  float scale = range > 1e-7f ? range : 1e-7f;
  if (!low_is_farther) scale = -scale;
  const float edge = low_is_farther ? low : high;
  const float zero_at = __builtin_rintf(edge / scale);
  float bias = 0.0f;
  if (zero_at != 0.0f) {
    scale = edge / zero_at;
    bias = edge;
  }
  return {scale + poison, bias + poison};
}

template <typename T>
GroupScale scale_of_group(const T* x, int size, float steps) {
  Vec16 high = load(x), negated = sub(zeros(), high), poison = zeros();
  for (int k = 0; k < size; k += 16) {
    const Vec16 v = load(x + k);
    high = max(v, high);
    negated = max(sub(zeros(), v), negated);
    poison = fma(v, zeros(), poison);  // not a number once v is not finite
  }
  return choose_scale(0.0f - lane_max(negated), lane_max(high), sum(poison),
                      steps);
}

inline void pack_fields(const float* fields, int bits, std::uint8_t* out) {
  if (bits == 8) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<std::uint8_t>(fields[i]);
    return;
  }
  for (int i = 0; i < 8; ++i)
    out[i] = static_cast<std::uint8_t>(static_cast<unsigned>(fields[2 * i]) |
                                       static_cast<unsigned>(fields[2 * i + 1])
                                           << 4);
}

template <typename T>
void quantize_row_as(const RowFormat& format, const T* row, char* out) {
  const float steps = static_cast<float>((1 << format.bits) - 1);
  T* scales = reinterpret_cast<T*>(out + format.words_bytes);
  T* biases = scales + format.groups;
  auto* words = reinterpret_cast<std::uint8_t*>(out);
  for (int g = 0; g < format.groups; ++g) {
    const T* x = row + g * format.group_size;
    const GroupScale s = scale_of_group(x, format.group_size, steps);
    store_first(scales + g, broadcast(s.scale), 1);
    store_first(biases + g, broadcast(s.bias), 1);
    for (int k = 0; k < format.group_size; k += 16) {
      const Vec16 at =
          round(div(sub(load(x + k), broadcast(s.bias)), broadcast(s.scale)));
      alignas(64) float fields[16];
      // max() gives its second argument where the first is not a number.
      store(fields, min(max(at, zeros()), broadcast(steps)));
      pack_fields(fields, format.bits, words);
      words += 2 * format.bits;
    }
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
