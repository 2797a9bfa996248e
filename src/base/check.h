// CHECK(condition, "format", args...): an invariant of ours. Stays on in
// release builds; a failure prints place and values and aborts. Input from
// outside never reaches a CHECK: it becomes an Error first.
#pragma once

#include <fmt/format.h>

#include <string>

namespace reprise {

[[noreturn]] void check_failed(const char* file, int line,
                               const char* condition,
                               const std::string& message);

}  // namespace reprise

#define CHECK(condition, ...)                                 \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::reprise::check_failed(__FILE__, __LINE__, #condition, \
                              ::fmt::format("" __VA_ARGS__)); \
  } while (false)
