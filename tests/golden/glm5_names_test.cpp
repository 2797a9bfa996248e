// GLM-5.3-Flash as its conversions store it, which rename, reshape and join the
// same weights, each in its own way: the same bits come out of all of them.
#include <gtest/gtest.h>
#include <mlx/io.h>
#include <mlx/ops.h>

#include <filesystem>
#include <functional>
#include <regex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "golden.h"
#include "models/registry.h"
#include "weights/checkpoint.h"
#include "weights/testing_files.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using Tensors = std::unordered_map<std::string, mx::array>;
using Names = std::vector<std::string>;

const FixtureModel kModel{
    .arch = "glm5_next",
    .quantized = {},
    .path = REPRISE_SOURCE_DIR "/tests/fixtures/glm5_next/hf",
    .model_type = "glm5_next"};
const std::string kLayers = "model.language_model.layers.";

mx::array take(Tensors& from, const std::string& name) {
  auto node = from.extract(name);
  if (node.empty()) throw std::out_of_range(name);
  return node.mapped();
}

// What stands before `part` in each module that has it.
Names modules_with(const Tensors& tensors, const std::string& part) {
  Names modules;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(kLayers) && name.ends_with("." + part))
      modules.push_back(name.substr(0, name.size() - part.size()));
  return modules;
}

void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  Tensors renamed;
  for (const auto& [name, tensor] : tensors)
    renamed.emplace(std::regex_replace(name, std::regex(from), to), tensor);
  tensors = std::move(renamed);
}

// The rows of the parts behind each other, wherever they are.
void join(Tensors& tensors, const Names& parts, const std::string& together) {
  for (const std::string& module :
       modules_with(tensors, parts[0] + ".weight")) {
    std::vector<mx::array> rows;
    for (const std::string& part : parts)
      rows.push_back(take(tensors, module + part + ".weight"));
    tensors.emplace(module + together + ".weight", mx::concatenate(rows, 0));
  }
}

void swap_axes(Tensors& tensors, const std::string& part) {
  for (const std::string& module : modules_with(tensors, part)) {
    mx::array& tensor = tensors.at(module + part);
    tensor = mx::contiguous(mx::swapaxes(tensor, 1, 2));
  }
}

void join_conv(Tensors& tensors, const std::string& together) {
  join(tensors, {"q_conv1d", "k_conv1d", "v_conv1d"}, together);
  swap_axes(tensors, together + ".weight");
}

void absorb(Tensors& tensors) {
  constexpr int kHeads = 4, kNope = 64;
  for (const std::string& module : modules_with(tensors, "kv_b_proj.weight")) {
    const auto both = take(tensors, module + "kv_b_proj.weight");
    const auto heads =
        mx::reshape(both, {kHeads, both.shape(0) / kHeads, both.shape(1)});
    const auto parts = mx::split(heads, mx::Shape{kNope}, 1);
    tensors.emplace(module + "embed_q.weight", parts[0]);
    tensors.emplace(module + "unembed_out.weight", mx::contiguous(parts[1]));
  }
  swap_axes(tensors, "embed_q.weight");
}

// Matrices of a layer's experts on one another, as "<stacks>.up_proj.weight".
void stack_experts(Tensors& tensors, const std::string& stacks) {
  for (const char* part :
       {".gate_proj.weight", ".up_proj.weight", ".down_proj.weight"}) {
    const std::string first = std::string("experts.0") + part;
    for (const std::string& module : modules_with(tensors, first)) {
      std::vector<mx::array> all;
      for (int e = 0;
           tensors.contains(module + "experts." + std::to_string(e) + part);
           ++e)
        all.push_back(
            take(tensors, module + "experts." + std::to_string(e) + part));
      tensors.emplace(module + stacks + part, mx::stack(all));
    }
  }
}

void join_expert_inputs(Tensors& tensors, const std::string& stacks) {
  const std::string gate = stacks + ".gate_proj.weight";
  for (const std::string& module : modules_with(tensors, gate))
    tensors.emplace(
        module + stacks + ".gate_up_proj.weight",
        mx::concatenate({take(tensors, module + gate),
                         take(tensors, module + stacks + ".up_proj.weight")},
                        1));
}

void name_hyper_sites(Tensors& tensors) {
  rename(tensors, "\\.hc_(attn|ffn)_", ".$1_hc.");
}

void name_forget_gates(Tensors& tensors) {
  rename(tensors, "\\.(A_log|dt_bias|f_[ab]_proj)", ".forget_gate.$1");
}

void name_for_mlx_vlm(Tensors& tensors, const std::string& vision) {
  rename(tensors, "^model\\.language_model\\.", "language_model.model.");
  rename(tensors, "^lm_head", "language_model.lm_head");
  rename(tensors, "^model\\.visual", vision);
}

// The classes of transformers, saved without its mapping.
void in_memory(Tensors& tensors) {
  name_hyper_sites(tensors);
  name_forget_gates(tensors);
  join(tensors, {"q_conv1d", "k_conv1d", "v_conv1d"}, "conv1d");
  stack_experts(tensors, "experts");
  join_expert_inputs(tensors, "experts");
  rename(tensors, "(\\.experts\\.(gate_up|down)_proj)\\.weight", "$1");
}

void first_mlx_vlm_flat(Tensors& tensors) {
  name_hyper_sites(tensors);
  join_conv(tensors, "conv1d");
  absorb(tensors);
  stack_experts(tensors, "switch_mlp");
  name_for_mlx_vlm(tensors, "vision_model");
}

void first_mlx_vlm(Tensors& tensors) {
  name_forget_gates(tensors);
  first_mlx_vlm_flat(tensors);
}

// With a layer for predicting several tokens at once, which is left out.
void later_mlx_vlm(Tensors& tensors) {
  name_hyper_sites(tensors);
  join(tensors, {"q_proj", "k_proj", "v_proj"}, "qkv_proj");
  join_conv(tensors, "qkv_conv.conv");
  join(tensors, {"f_a_proj", "b_proj", "g_a_proj"}, "fbg_a_proj");
  join(tensors, {"q_a_proj", "kv_a_proj_with_mqa"}, "qkv_a_proj");
  absorb(tensors);
  stack_experts(tensors, "switch_mlp");
  join_expert_inputs(tensors, "switch_mlp");
  join(tensors, {"gate_proj", "up_proj"}, "gate_up_proj");
  const auto any = tensors.at("model.language_model.norm.weight");
  for (const char* part : {"eh_proj", "enorm", "hnorm", "input_layernorm"})
    tensors.emplace(kLayers + "5." + part + ".weight", any);
  name_for_mlx_vlm(tensors, "vision_tower");
}

void mlx_lm(Tensors& tensors) {
  std::erase_if(tensors, [](const auto& tensor) {
    return tensor.first.starts_with("model.visual.");
  });
  name_hyper_sites(tensors);
  join(tensors, {"q_proj", "k_proj", "v_proj"}, "qkv_proj");
  join_conv(tensors, "qkv_conv.conv");
  absorb(tensors);
  stack_experts(tensors, "switch_mlp");
}

void as_float32(Tensors& tensors) {
  for (auto& [name, tensor] : tensors) tensor = mx::astype(tensor, mx::float32);
}

struct Conversion {
  std::string name;
  std::function<void(Tensors&)> make;
};
std::ostream& operator<<(std::ostream& out, const Conversion& conversion) {
  return out << conversion.name;
}

class Glm5Names : public ::testing::TestWithParam<Conversion> {
 protected:
  Glm5Names() {
    auto tensors = mx::load_safetensors(kModel.path + "/model.safetensors");
    GetParam().make(tensors.first);
    mx::save_safetensors(folder_.path("model.safetensors"), tensors.first);
    std::filesystem::copy(kModel.path + "/config.json", folder_.path());
  }

  const testing::TempFolder folder_;
};

TEST_P(Glm5Names, TheSameBits) {
  const auto ids = load_golden(kModel).ints("input_ids");
  const auto logits = [&](const std::string& path) {
    const auto runner = runner_of(path);
    return SequenceDriver(*runner).feed(ids);
  };
  EXPECT_EQ(logits(folder_.path()), logits(kModel.path));
}

TEST_P(Glm5Names, OnlyWhatIsNotOfTheTextIsLeft) {
  const auto checkpoint = Checkpoint::open(folder_.path());
  make_model(**checkpoint, {.dtype = mx::float32});
  for (const std::string& name : (*checkpoint)->unread())
    EXPECT_TRUE(std::regex_search(
        name, std::regex("^model\\.visual|^vision_|\\.layers\\.5\\.")))
        << name;
}

INSTANTIATE_TEST_SUITE_P(
    All, Glm5Names,
    ::testing::Values(Conversion{"in_memory", in_memory},
                      Conversion{"first_mlx_vlm", first_mlx_vlm},
                      Conversion{"first_mlx_vlm_flat", first_mlx_vlm_flat},
                      Conversion{"later_mlx_vlm", later_mlx_vlm},
                      Conversion{"mlx_lm", mlx_lm},
                      Conversion{"float32", as_float32}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace reprise
