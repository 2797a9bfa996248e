// State in fewer bits against the reference's logits, which know of none. Small
// random models take it worse than trained ones: where a choice of experts or
// of an index flips, one position's logits are others. The bounds are the worst
// that was measured, doubled; a scale taken for a bias is far outside of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "golden.h"

namespace reprise {
namespace {

std::vector<FixtureModel> unquantized_models() {
  std::vector<FixtureModel> models;
  for (const FixtureModel& model : fixture_models())
    if (model.quantized.empty()) models.push_back(model);
  return models;
}

std::vector<double> softmax(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const float logit : logits)
    sum += p.emplace_back(std::exp(logit - most));
  for (double& value : p) value /= sum;
  return p;
}

// Of what the reference says from what is said here, in nats.
double divergence(const std::vector<float>& want,
                  const std::vector<float>& is) {
  const auto p = softmax(want), q = softmax(is);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

// The mean over the listed positions.
double mean_divergence(const Golden& golden, Runner& runner) {
  const auto ids = golden.ints("input_ids");
  const auto positions = golden.ints("positions");
  SequenceDriver sequence(runner);
  double sum = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto logits = sequence.feed(std::span(ids).subspan(
        sequence.length(), positions[i] + 1 - sequence.length()));
    sum += divergence(golden.row("logits", int(i)), logits);
  }
  return sum / double(positions.size());
}

class QuantizedState : public testing::TestWithParam<FixtureModel> {
 protected:
  double divergence_with(const KvQuantization& kv) const {
    const auto runner = runner_of(GetParam().path, kv);
    const double mean = mean_divergence(load_golden(GetParam()), *runner);
    std::printf("%s: %d bits from %d on: mean divergence %.2e\n",
                GetParam().name().c_str(), kv.bits, kv.start, mean);
    return mean;
  }
};

TEST_P(QuantizedState, CostsLittle) {
  const double eight = divergence_with({.bits = 8});
  const double four = divergence_with({.bits = 4});
  const double late = divergence_with({.bits = 4, .start = 256});
  EXPECT_LT(eight, 0.08);
  EXPECT_LT(four, 2.2);
  EXPECT_LT(late, four);    // a fifth of the positions reads fewer bits
  EXPECT_GT(eight, 1e-12);  // it is another computation
  EXPECT_GT(late, 1e-12);
}

// A prompt in parts reads the same rows as one in a piece: those of its own
// part are read as stored, too.
TEST_P(QuantizedState, AnySplitIsOneShot) {
  const auto ids = load_golden(GetParam()).ints("input_ids");
  for (const KvQuantization& kv :
       {KvQuantization{.bits = 8}, KvQuantization{.bits = 4},
        KvQuantization{.bits = 4, .start = 256}}) {
    const auto runner = runner_of(GetParam().path, kv);
    SequenceDriver whole(*runner);
    const auto one_shot = whole.feed(ids);
    for (const int n : {1, 130, 255, 256, 257, 319}) {
      SequenceDriver split(*runner, 4);
      split.feed(std::span(ids).first(n));
      EXPECT_EQ(split.feed(std::span(ids).subspan(n)), one_shot)
          << kv.bits << " bits, " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedState,
                         testing::ValuesIn(unquantized_models()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise
