// Working memory of a thread that is kept from one use to the next: it grows
// to the largest request and is freed with the thread.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace reprise::kernels::cpu {

// Make it thread_local, one for each purpose.
class Scratch {
 public:
  // At least `count` floats, aligned to 64 bytes, contents undefined. Valid
  // until the next call.
  float* floats(std::size_t count) {
    if (count > count_) {
      memory_.reset();
      memory_.reset(static_cast<float*>(
          ::operator new(count * sizeof(float), kAlignment)));
      count_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t count_ = 0;
};

}  // namespace reprise::kernels::cpu
