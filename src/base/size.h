// Sizes in bytes as people write them: "4GiB", "512 MiB", "1048576".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace reprise {

// Digits, optionally a fraction, then nothing, KiB, MiB or GiB (any case).
// Errors: invalid, with the text and the accepted forms.
Result<std::size_t> parse_size(std::string_view text);

// The shortest form that is exact to three digits: "1.5 GiB", "768 B".
std::string format_size(std::size_t bytes);

}  // namespace reprise
