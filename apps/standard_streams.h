// What commands read and print: files, standard input, standard output.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace reprise {

// All of a file; "-" is the standard input. Errors: not_found, and too_large
// past `bytes_max`.
Result<std::string> read_input(const std::string& path, std::size_t bytes_max);

// To the standard output, to the last byte. Errors: internal.
Result<void> print_output(std::string_view text);

}  // namespace reprise
