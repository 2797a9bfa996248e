// The memory that request bodies may take together, from the first byte read
// until the request has been made of them: a thousand clients with a large
// body each must not take the machine's.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace reprise {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  std::size_t bytes_max() const { return bytes_max_; }
  std::size_t used() const { return used_; }  // any thread

  // One body's part. The budget outlives it.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { release(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // A body of this size in all would fit now.
    bool fits(std::size_t bytes) const {
      return bytes <= bytes_ ||
             bytes - bytes_ <= budget_.bytes_max_ - budget_.used_;
    }
    // False: it does not fit, and the share is as it was.
    bool grow_to(std::size_t bytes) {
      if (!fits(bytes)) return false;
      if (bytes > bytes_) budget_.used_ += bytes - std::exchange(bytes_, bytes);
      return true;
    }
    void release() { budget_.used_ -= std::exchange(bytes_, 0); }

   private:
    BodyBudget& budget_;
    std::size_t bytes_ = 0;
  };

 private:
  // Changed by the I/O thread only, read by all.
  const std::size_t bytes_max_;
  std::atomic<std::size_t> used_ = 0;
};

}  // namespace reprise
