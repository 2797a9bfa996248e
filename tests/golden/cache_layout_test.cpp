// The state that a reference keeps after n tokens, family by family, against
// the layout that the model declares; and that n tokens and one more are n + 1.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "cache/state_layout.h"
#include "golden.h"
#include "models/registry.h"

namespace reprise {
namespace {

using nlohmann::json;

std::vector<FixtureModel> models_with_layouts() {
  std::vector<FixtureModel> models;
  for (const FixtureModel& model : fixture_models())
    if (std::filesystem::exists(REPRISE_SOURCE_DIR "/tests/fixtures/" +
                                model.arch + "/cache_layout.json"))
      models.push_back(model);
  return models;
}

class CacheLayout : public testing::TestWithParam<FixtureModel> {
 protected:
  json prompts() const {
    return read_fixture_json(REPRISE_SOURCE_DIR "/tests/fixtures/" +
                             GetParam().arch + "/cache_layout.json")
        .at("prompts");
  }

  StateLayout layout() const {
    const auto checkpoint = Checkpoint::open(GetParam().path);
    return make_model(**checkpoint, {.dtype = mlx::core::float32})
        ->state_layout();
  }
};

std::size_t elements(const json& state) {
  const auto shape = state.at("shape").get<std::vector<std::size_t>>();
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1},
                         std::multiplies<>());
}

const StateFamily* family(const LayerState& layer, const std::string& name) {
  for (const StateFamily& f : layer)
    if (f.name == name) return &f;
  return nullptr;
}

// What a layer keeps of the families that grow and of those that do not.
std::size_t elements_at(const LayerState& layer, const std::string& name,
                        int tokens) {
  const StateFamily* f = family(layer, name);
  if (f == nullptr) return std::string::npos;
  return std::size_t(rows_at(f->growth, tokens).size()) * f->row_elements;
}

// The rows of a pool that is not complete: the reference's are two arrays of as
// many rows as there are, ours one slot with room for all that there can be.
void expect_partial(const LayerState& layer, const json& states, int tokens) {
  std::size_t rows = 0, width = 0;
  for (const json& state : states)
    if (state.at("kind") == "pooled-index" &&
        state.at("name") != "index_pooled") {
      EXPECT_EQ(state.at("zero_size"), elements(state) == 0);
      rows += state.at("shape").at(1).get<std::size_t>();
      width = state.at("shape").at(2);
    }
  if (width == 0) return;
  const StateFamily* partial = family(layer, "index_partial");
  const StateFamily* pooled = family(layer, "index");
  ASSERT_TRUE(partial != nullptr && pooled != nullptr);
  const int stride = std::get<Pooled>(pooled->growth).stride;
  EXPECT_TRUE(std::holds_alternative<Snapshot>(partial->growth));
  EXPECT_EQ(rows, std::size_t(tokens % stride) * 2);
  EXPECT_EQ(std::size_t(partial->row_elements), (stride - 1) * 2 * width);
}

TEST_P(CacheLayout, FamiliesAndRowsAreTheReference) {
  const StateLayout ours = layout();
  int compared = 0;
  for (const json& prompt : prompts()) {
    const int n = prompt.at("n");
    const json& layers = prompt.at("layers");
    ASSERT_EQ(layers.size(), ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      std::size_t families = 0;
      bool partial = false;
      for (const json& state : layers[i].at("state")) {
        const std::string theirs = state.at("name");
        if (theirs.starts_with("index_partial")) {
          families += !std::exchange(partial, true);
          continue;
        }
        ++families;
        const std::string name = theirs == "index_pooled" ? "index" : theirs;
        EXPECT_EQ(elements_at(ours[i], name, n), elements(state))
            << n << " tokens, layer " << i << ", " << theirs;
        EXPECT_EQ(state.at("zero_size"), elements(state) == 0);
        ++compared;
      }
      EXPECT_EQ(ours[i].size(), families) << "layer " << i;
      expect_partial(ours[i], layers[i].at("state"), n);
    }
  }
  std::printf("%d families compared\n", compared);
}

TEST_P(CacheLayout, OneMoreTokenGoesOnFromThere) {
  const Golden golden = load_golden(GetParam());
  const auto runner = runner_of(GetParam().path);
  const auto ids = golden.ints("input_ids");
  const auto greedy = golden.ints("greedy_ids");
  auto all = ids;
  all.insert(all.end(), greedy.begin(), greedy.end());
  const auto positions = golden.ints("positions");
  int referenced = 0;
  for (const json& prompt : prompts()) {
    const int n = prompt.at("n");
    SequenceDriver whole(*runner), split(*runner, 4);
    const auto one_shot = whole.feed(std::span(all).first(n + 1));
    split.feed(std::span(all).first(n));
    EXPECT_EQ(split.feed(std::span(all).subspan(n, 1)), one_shot) << n;
    for (std::size_t i = 0; i < positions.size(); ++i)
      if (positions[i] == n) {
        EXPECT_LE(distance(one_shot, golden.row("logits", int(i))),
                  golden.tolerance);
        ++referenced;
      }
  }
  EXPECT_GT(referenced, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CacheLayout,
                         testing::ValuesIn(models_with_layouts()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace reprise
