// The kernels of conv_task.h, compiled once for every instruction set by
// conv_<set>.cpp.
#pragma once

#include "kernels/cpu/conv_task.h"
#include "kernels/cpu/row_access.h"
#include "kernels/cpu/vec16_activation.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// A span's rows, and the ones before them in a slot: row -1 is the latest.
template <typename T>
class ConvRows {
 public:
  ConvRows(const ConvTask& task, const ConvItem& item)
      : task_(task),
        first_row_(item.span->first_row),
        history_(item.span->slot_from < 0 ? nullptr
                                          : slot(task, item.span->slot_from)),
        channel_(item.channel) {}

  // From the item's first channel on; null: zeros.
  const T* operator()(int row) const {
    if (row >= 0)
      return row_of<T>(task_.x, task_.x_row_bytes, first_row_ + row) + channel_;
    if (history_ == nullptr) return nullptr;
    return history_ + std::int64_t{task_.taps - 1 + row} * task_.channels +
           channel_;
  }

  static T* slot(const ConvTask& task, int index) {
    return reinterpret_cast<T*>(task.pool) +
           std::int64_t{index} * (task.taps - 1) * task.channels;
  }

 private:
  const ConvTask& task_;
  const int first_row_;
  const T* const history_;
  const int channel_;
};

template <typename T>
inline void convolve_row(const ConvTask& task, const ConvItem& item,
                         const ConvRows<T>& rows, int row) {
  const T* taps[kConvTaps];
  const char* weights[kConvTaps];
  const std::int64_t offset =
      item.channel *
      std::int64_t{task.weight_type == ElementType::float32 ? 4 : 2};
  for (int j = 0; j < task.taps; ++j) {
    taps[j] = rows(row - task.taps + 1 + j);
    weights[j] = task.weight + j * task.weight_row_bytes + offset;
  }
  T* out = reinterpret_cast<T*>(task.out) +
           std::int64_t{item.span->first_row + row} * task.channels +
           item.channel;
  for (int i = 0; i < item.channels; i += 16) {
    Vec16 total = zeros();
    for (int j = 0; j < task.taps; ++j) {
      const Vec16 x =
          taps[j] == nullptr ? zeros() : load_at(taps[j], i, item.channels);
      total = fma(load_any(weights[j], task.weight_type, i, item.channels), x,
                  total);
    }
    store_at(out, i, item.channels, task.silu ? silu(total) : total);
  }
}

// Reads slot_from only where the span is shorter than the tail.
template <typename T>
inline void leave_tail(const ConvTask& task, const ConvItem& item,
                       const ConvRows<T>& rows) {
  T* to = ConvRows<T>::slot(task, item.span->slot_to) + item.channel;
  for (int i = task.taps - 1; i > 0; --i, to += task.channels) {
    const T* row = rows(item.span->row_count - i);
    if (row == nullptr)
      __builtin_memset(to, 0, item.channels * sizeof(T));
    else
      __builtin_memcpy(to, row, item.channels * sizeof(T));
  }
}

template <typename T>
void short_conv_as(const ConvTask& task, const ConvItem& item) {
  const ConvRows<T> rows(task, item);
  for (int row = item.begin; row < item.end; ++row)
    convolve_row(task, item, rows, row);
  if (item.end == item.span->row_count && item.span->slot_to >= 0)
    leave_tail(task, item, rows);
}

void short_conv(const ConvTask& task, const ConvItem& item) {
  switch (task.type) {
    case ElementType::float32:
      return short_conv_as<float>(task, item);
    case ElementType::bfloat16:
      return short_conv_as<BFloat16>(task, item);
    case ElementType::float16:
      return short_conv_as<Float16>(task, item);
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
