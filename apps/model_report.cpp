#include "model_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "text_model.h"

namespace reprise {
namespace {

// "model.layers.3.mlp.up_proj.weight" → module "model.layers.3.mlp.up_proj".
std::string_view module_of(std::string_view tensor) {
  return tensor.substr(0, tensor.rfind('.'));
}

// The module's own name: "up_proj".
std::string part_of(std::string_view tensor) {
  const std::string_view module = module_of(tensor);
  const auto dot = module.rfind('.');
  return std::string(dot == std::string_view::npos ? module
                                                   : module.substr(dot + 1));
}

Report files_report(const std::vector<TensorInfo>& tensors) {
  std::set<std::string> paths;
  for (const TensorInfo& tensor : tensors) paths.insert(tensor.file);
  Report files = Report::array();
  for (const std::string& path : paths) {
    std::error_code ignored;
    files.push_back({{"name", std::filesystem::path(path).filename().string()},
                     {"bytes", std::filesystem::file_size(path, ignored)}});
  }
  return files;
}

// How a tensor's numbers are stored: its type, with bits and group if packed.
struct Storage {
  std::string dtype;
  int bits = 0;
  int group_size = 0;

  auto operator<=>(const Storage&) const = default;
};

Storage storage_of(const TensorInfo& tensor) {
  if (!tensor.quantization) return {.dtype = tensor.dtype};
  return {.dtype = tensor.dtype,
          .bits = tensor.quantization->bits,
          .group_size = tensor.quantization->group_size};
}

// Tensors by how they are stored; scales and biases count with their matrix.
Report storage_report(const std::vector<TensorInfo>& tensors) {
  std::map<std::string, Storage, std::less<>> packed;  // by module
  for (const TensorInfo& tensor : tensors)
    if (tensor.quantization)
      packed.emplace(module_of(tensor.name), storage_of(tensor));
  struct Group {
    int tensors = 0;
    std::size_t bytes = 0;
    std::int64_t parameters = 0;
    std::set<std::string> parts;
  };
  std::map<Storage, Group> groups;
  for (const TensorInfo& tensor : tensors) {
    const auto matrix = packed.find(module_of(tensor.name));
    const bool belongs = tensor.parameters == 0 && matrix != packed.end();
    Group& group = groups[belongs ? matrix->second : storage_of(tensor)];
    group.bytes += tensor.bytes;
    if (belongs) continue;
    ++group.tensors;
    group.parameters += tensor.parameters;
    group.parts.insert(part_of(tensor.name));
  }
  Report result = Report::array();
  for (const auto& [storage, group] : groups) {
    Report entry = {{"dtype", storage.dtype}};
    if (storage.bits > 0) {
      entry["bits"] = storage.bits;
      entry["group_size"] = storage.group_size;
    }
    entry["tensors"] = group.tensors;
    entry["parameters"] = group.parameters;
    entry["bytes"] = group.bytes;
    entry["modules"] = group.parts;
    result.push_back(std::move(entry));
  }
  return result;
}

// A whole number as one.
Report number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Report(whole) : Report(value);
}

Report state_report(const ModelInspection& model) {
  Report kinds = Report::array();
  double token = 0;
  std::size_t snapshot = 0, context = 0;
  for (const StateLayers& kind : model.state) {
    Report families = Report::array();
    for (const StateFamilyInfo& family : kind.families)
      families.push_back({{"name", family.name},
                          {"growth", family.growth},
                          {"dtype", family.dtype},
                          {"row_elements", family.row_elements},
                          {"row_bytes", family.row_bytes},
                          {"bits", family.bits},
                          {"bits_from", family.bits_from}});
    kinds.push_back({{"layers", kind.layers},
                     {"families", std::move(families)},
                     {"bytes_per_token", number(kind.token_bytes)},
                     {"bytes_per_snapshot", kind.snapshot_bytes},
                     {"bytes_at_context", kind.context_bytes}});
    token += kind.token_bytes;
    snapshot += kind.snapshot_bytes;
    context += kind.context_bytes;
  }
  return {{"kinds", std::move(kinds)},
          {"bytes_per_token", number(token)},
          {"bytes_per_snapshot", snapshot},
          {"bytes_at_context", context}};
}

Report tensors_report(const ModelInspection& model) {
  const std::set<std::string> unread(model.unread.begin(), model.unread.end());
  Report tensors = Report::array();
  for (const TensorInfo& tensor : model.tensors) {
    Report entry = {{"name", tensor.name},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"bytes", tensor.bytes}};
    if (unread.contains(tensor.name)) entry["loaded"] = false;
    tensors.push_back(std::move(entry));
  }
  return tensors;
}

}  // namespace

Report model_report(const ModelInspection& model, bool list_tensors) {
  Report report = {{"model_type", model.model_type},
                   {"served", model.refusal.empty()}};
  if (!model.refusal.empty()) report["refusal"] = model.refusal;
  if (model.refusal.empty()) {
    report["layers"] = model.layers;
    report["context_tokens"] = model.context_tokens;
    report["vocabulary"] = model.vocabulary;
  }
  std::int64_t parameters = 0;
  std::size_t bytes = 0;
  for (const TensorInfo& tensor : model.tensors) {
    parameters += tensor.parameters;
    bytes += tensor.bytes;
  }
  report["parameters"] = parameters;
  report["weight_bytes"] = bytes;
  report["files"] = files_report(model.tensors);
  report["storage"] = storage_report(model.tensors);
  if (model.refusal.empty()) {
    report["state"] = state_report(model);
    report["not_loaded"] = model.unread;
  }
  if (list_tensors) report["tensors"] = tensors_report(model);
  return report;
}

void add_text_report(Report& report, const std::string& path) {
  const auto text = load_text_model(path);
  if (!text) {
    report["text_refusal"] = text.error().message;
    return;
  }
  report["tokenizer_tokens"] = text->tokenizer->size();
  report["chat_template"] = text->chat_template != nullptr;
  report["end_tokens"] = text->end_tokens;
}

}  // namespace reprise
