// The text crate's C interface in C++ terms: owned buffers become strings and
// vectors, statuses become Errors. For the sources of this folder only.
#pragma once

#include <reprise_text.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace reprise::crate {

struct Free {
  void operator()(reprise_tokenizer* p) const { reprise_tokenizer_free(p); }
  void operator()(reprise_stream* p) const { reprise_stream_free(p); }
  void operator()(reprise_template* p) const { reprise_template_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

inline reprise_text text(std::string_view s) {
  return {s.data(), s.size()};
}

// Both free what the crate gave.
std::string take(reprise_buffer buffer);
std::vector<std::uint32_t> take(reprise_ids ids);

// The calling thread's last failure. `status` is not REPRISE_OK.
Error error(int status);

}  // namespace reprise::crate
