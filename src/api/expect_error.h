// For the tests of this folder: an error that names what it is about.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "api/json.h"
#include "base/result.h"

namespace reprise {

// The result is an error of this kind, about this parameter, and its message
// has every part.
template <class T>
void expect_error(const Result<T>& result, ErrorKind kind,
                  const std::string& subject,
                  std::initializer_list<std::string> parts) {
  ASSERT_TRUE(result.has_error()) << subject;
  const Error& error = result.error();
  EXPECT_EQ(error.kind, kind) << error.message;
  EXPECT_EQ(error.subject, subject) << error.message;
  for (const auto& part : parts)
    EXPECT_NE(error.message.find(part), std::string::npos)
        << "no '" << part << "' in: " << error.message;
}

}  // namespace reprise
