#include "engine/inspect_model.h"

#include <algorithm>
#include <stdexcept>

#include "engine/mlx_device.h"
#include "engine/stored_layout.h"
#include "models/registry.h"
#include "weights/checkpoint.h"

namespace reprise {
namespace {

std::vector<StateFamilyInfo> families_of(const LayerState& layer) {
  std::vector<StateFamilyInfo> result;
  for (const StateFamily& family : layer)
    result.push_back(
        {.name = family.name,
         .growth = describe(family.growth),
         .dtype = dtype_name(family.dtype),
         .row_elements = family.row_elements,
         .row_bytes = family.row_bytes(),
         .bits = family.quantized ? family.quantized->codec.bits : 0,
         .bits_from = family.quantized ? family.quantized->from : 0});
  return result;
}

std::vector<StateLayers> state_of(const StateLayout& layout, int context) {
  std::vector<StateLayers> kinds;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const auto families = families_of(layout[i]);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) {
      return k.families == families;
    });
    if (kind == kinds.end()) {
      kind = kinds.insert(kinds.end(), StateLayers());
      kind->families = families;
    }
    kind->layers.push_back(static_cast<int>(i));
    kind->token_bytes += token_bytes(layout[i]);
    kind->snapshot_bytes += snapshot_bytes(layout[i]);
    kind->context_bytes += state_bytes(layout[i], context);
  }
  return kinds;
}

void describe_model(const Checkpoint& checkpoint, mlx::core::Dtype dtype,
                    const KvQuantization& kv, ModelInspection& result) {
  const auto model = make_model(checkpoint, {.dtype = dtype});
  const ModelShape shape = model->shape();
  result.vocabulary = shape.vocabulary;
  result.context_tokens = shape.context_tokens;
  result.layers = shape.layers;
  result.state =
      state_of(stored_layout(model->state_layout(), kv), shape.context_tokens);
  result.unread = checkpoint.unread();
}

}  // namespace

ModelInspection inspect_model(const std::string& path, const std::string& dtype,
                              const KvQuantization& kv) {
  const auto device = choose_device("cpu");
  prepare_device(device);
  const auto opened = Checkpoint::open(path, Checkpoint::Contents::shapes);
  if (!opened) throw std::runtime_error(opened.error().message);
  const Checkpoint& checkpoint = **opened;
  ModelInspection result;
  result.tensors = checkpoint.tensors();
  const auto type = checkpoint.config().find("model_type");
  if (type != checkpoint.config().end() && type->is_string())
    result.model_type = type->get<std::string>();
  const auto state_dtype = choose_dtype(dtype, device);
  try {
    describe_model(checkpoint, state_dtype, kv, result);
  } catch (const std::exception& e) {
    result.refusal = e.what();
  }
  return result;
}

}  // namespace reprise
