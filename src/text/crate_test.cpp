#include "text/crate.h"

#include <gtest/gtest.h>

#include <thread>

namespace reprise {
namespace {

TEST(Crate, PanicsComeOutAsErrorsInSilence) {
  ::testing::internal::CaptureStderr();
  const int status = reprise_debug_panic();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(status, REPRISE_PANIC);
  const Error error = crate::error(status);
  EXPECT_EQ(error.kind, ErrorKind::internal);
  EXPECT_NE(error.message.find("panic"), std::string::npos);
  EXPECT_NE(error.message.find("asked to"), std::string::npos);
}

TEST(Crate, ErrorsBelongToTheirThread) {
  ASSERT_EQ(reprise_debug_panic(), REPRISE_PANIC);
  std::string elsewhere = "?";
  std::thread([&] {
    elsewhere = crate::error(REPRISE_INVALID).message;
  }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_NE(crate::error(REPRISE_PANIC).message, "");
}

TEST(Crate, OutputsStayUntouchedOnFailure) {
  reprise_template* compiled = nullptr;
  EXPECT_EQ(reprise_template_compile(crate::text("{% if %}"), &compiled),
            REPRISE_INVALID);
  EXPECT_EQ(compiled, nullptr);
}

TEST(Crate, NullMayBeFreed) {
  reprise_tokenizer_free(nullptr);
  reprise_stream_free(nullptr);
  reprise_template_free(nullptr);
  reprise_buffer_free({});
  reprise_ids_free({});
}

}  // namespace
}  // namespace reprise
