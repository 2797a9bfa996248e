// Rows of row_task.h in sixteen lanes. Include in a file compiled for one
// instruction set.
#pragma once

#include "kernels/cpu/row_task.h"
#include "kernels/cpu/vec16.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

inline int least(int a, int b) {
  return a < b ? a : b;
}

// Up to 16 elements at p[i...] of a row of `dim`, zeros past its end.
template <typename T>
Vec16 load_at(const T* p, int i, int dim) {
  return dim - i >= 16 ? load(p + i) : load_first(p + i, dim - i);
}

template <typename T>
void store_at(T* p, int i, int dim, Vec16 v) {
  if (dim - i >= 16)
    store(p + i, v);
  else
    store_first(p + i, v, dim - i);
}

inline Vec16 load_any(const char* p, ElementType type, int i, int dim) {
  switch (type) {
    case ElementType::bfloat16:
      return load_at(reinterpret_cast<const BFloat16*>(p), i, dim);
    case ElementType::float16:
      return load_at(reinterpret_cast<const Float16*>(p), i, dim);
    case ElementType::float32:
      break;
  }
  return load_at(reinterpret_cast<const float*>(p), i, dim);
}

template <typename T>
const T* row_of(const char* data, std::int64_t row_bytes, int row) {
  return reinterpret_cast<const T*>(data + row * row_bytes);
}

template <typename T>
T* out_row(const RowTask& task, int row) {
  return reinterpret_cast<T*>(task.out) +
         static_cast<std::int64_t>(row) * task.dim;
}

// f with an element of task.type, to choose a template by.
template <typename F>
inline void with_type(const RowTask& task, F f) {
  switch (task.type) {
    case ElementType::float32:
      return f(float());
    case ElementType::bfloat16:
      return f(BFloat16());
    case ElementType::float16:
      return f(Float16());
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
