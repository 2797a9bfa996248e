// Result<T>: a value or an Error. For every "no" that is expected: bad input,
// a full queue, a corrupt file. A broken invariant of our own is a CHECK
// (base/check.h), not an Error.
//
//   Result<int> parse(std::string_view s);
//   auto r = parse(s);
//   if (!r) return r.error();
//   use(*r);
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace reprise {

template <typename T>
using Result = boost::system::result<T, Error>;

// Called by Boost when value() is taken from a failed result.
[[noreturn]] inline void throw_exception_from_error(
    const Error& e, const boost::source_location&) {
  throw std::runtime_error(e.message);
}

}  // namespace reprise
