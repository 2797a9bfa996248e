#include "layers/hyper_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/testing_checkpoint.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using testing::checkpoint_of;
using ::testing::HasSubstr;
using testing::same_bits;
using testing::Tensors;
using testing::thrown_by;

constexpr HyperOptions kOptions = {.streams = 2,
                                   .hidden = 16,
                                   .norm_eps = 1e-5f,
                                   .mix_eps = 1e-6f,
                                   .iterations = 20};

TEST(HyperConnection, LoadsBothNames) {
  const auto fn = mx::random::normal({8, 32});
  const auto base = mx::random::normal({8}), scale = mx::random::normal({3});
  const Tensors names[] = {{{"l.hc_attn_fn", fn},
                            {"l.hc_attn_base", base},
                            {"l.hc_attn_scale", scale}},
                           {{"l.attn_hc.fn", fn},
                            {"l.attn_hc.base", base},
                            {"l.attn_hc.scale", scale}}};
  for (const Tensors& tensors : names) {
    const auto checkpoint = checkpoint_of(tensors);
    const auto weights = load_hyper(*checkpoint, "l", "attn", kOptions);
    EXPECT_TRUE(checkpoint->unread().empty());
    EXPECT_TRUE(same_bits(weights.fn, fn));
    EXPECT_TRUE(same_bits(weights.base, base));
    EXPECT_TRUE(same_bits(weights.scale, scale));
    EXPECT_EQ(weights.streams, 2);
    EXPECT_EQ(weights.iterations, 20);
  }
}

TEST(HyperConnection, RefusesAnotherShapeByName) {
  const auto checkpoint = checkpoint_of({{"l.hc_ffn_fn", mx::zeros({8, 31})},
                                         {"l.hc_ffn_base", mx::zeros({8})},
                                         {"l.hc_ffn_scale", mx::zeros({3})}});
  EXPECT_THAT(
      thrown_by([&] { load_hyper(*checkpoint, "l", "ffn", kOptions); }),
      HasSubstr("'l.hc_ffn_fn' is [8, 31], but the configuration asks for "
                "[8, 32]"));
}

TEST(HyperConnection, EveryStreamBeginsAsTheEmbedding) {
  const auto x = mx::random::normal({3, 16});
  const auto streams = hyper_streams(x, 2);
  EXPECT_TRUE(same_bits(streams, mx::concatenate({x, x}, 1)));
}

}  // namespace
}  // namespace reprise
