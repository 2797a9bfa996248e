#include "weights/safetensors_checkpoint.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "weights/json_text.h"
#include "weights/mapped_array.h"
#include "weights/mlx_quantization.h"
#include "weights/safetensors_file.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using mlx::core::array;
using mlx::core::Shape;
using nlohmann::json;

constexpr std::uintmax_t kJsonBytesMax = 64 << 20;
const char* const kIndexName = "model.safetensors.index.json";
const char* const kWholeName = "model.safetensors";

struct Entry {
  std::shared_ptr<const MappedFile> file;
  SafetensorsTensor tensor;
};
using Entries = std::map<std::string, Entry>;
using Settings = std::map<std::string, QuantizationSettings>;  // by module

mlx::core::Dtype mlx_dtype(SafetensorsType type) {
  switch (type) {
    case SafetensorsType::boolean:
      return mlx::core::bool_;
    case SafetensorsType::u8:
      return mlx::core::uint8;
    case SafetensorsType::i8:
      return mlx::core::int8;
    case SafetensorsType::u16:
      return mlx::core::uint16;
    case SafetensorsType::i16:
      return mlx::core::int16;
    case SafetensorsType::u32:
      return mlx::core::uint32;
    case SafetensorsType::i32:
      return mlx::core::int32;
    case SafetensorsType::u64:
      return mlx::core::uint64;
    case SafetensorsType::i64:
      return mlx::core::int64;
    case SafetensorsType::f16:
      return mlx::core::float16;
    case SafetensorsType::bf16:
      return mlx::core::bfloat16;
    case SafetensorsType::f32:
      return mlx::core::float32;
    case SafetensorsType::f64:
      return mlx::core::float64;
  }
  CHECK(false, "dtype {}", static_cast<int>(type));
}

class SafetensorsCheckpoint final : public Checkpoint {
 public:
  SafetensorsCheckpoint(std::string folder, json config, Entries entries,
                        Settings quantized, Contents contents)
      : Checkpoint(contents),
        folder_(std::move(folder)),
        config_(std::move(config)),
        entries_(std::move(entries)),
        quantized_(std::move(quantized)) {}

  const json& config() const override { return config_; }

  bool contains(const std::string& name) const override {
    return entries_.contains(name);
  }

  std::vector<TensorInfo> tensors() const override;

 protected:
  array load_tensor(const std::string& name) const override {
    const Entry& entry = find(name);
    const std::size_t dot = name.rfind('.');
    if (dot != std::string::npos && name.substr(dot) == ".weight" &&
        quantized_.contains(name.substr(0, dot)))
      throw std::runtime_error(fmt::format(
          "tensor '{}' in '{}' is quantized, and a plain one is needed", name,
          entry.file->path()));
    return load(entry);
  }

  std::optional<QuantizedTensor> load_quantized(
      const std::string& module) const override {
    const Entry& words = find(module + ".weight");
    const auto settings = quantized_.find(module);
    if (settings == quantized_.end()) return std::nullopt;
    return QuantizedTensor{.words = load(words),
                           .scales = load(find(module + ".scales")),
                           .biases = load(find(module + ".biases")),
                           .group_size = settings->second.group_size,
                           .bits = settings->second.bits};
  }

  void release(const std::string& name) const override {
    const Entry& entry = find(name);
    release_pages(*entry.file, entry.tensor.offset, entry.tensor.bytes);
  }

 private:
  const Entry& find(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end())
      throw std::runtime_error(fmt::format(
          "no tensor '{}' in the safetensors files of '{}'", name, folder_));
    return found->second;
  }

  static array load(const Entry& entry) {
    const auto& shape = entry.tensor.shape;
    return mapped_array(entry.file, entry.tensor.offset,
                        Shape(shape.begin(), shape.end()),
                        mlx_dtype(entry.tensor.dtype));
  }

  const std::string folder_;
  const json config_;
  const Entries entries_;
  const Settings quantized_;
};

std::vector<TensorInfo> SafetensorsCheckpoint::tensors() const {
  std::vector<TensorInfo> result;
  for (const auto& [name, entry] : entries_) {
    TensorInfo info{.name = name,
                    .dtype = dtype_name(mlx_dtype(entry.tensor.dtype)),
                    .shape = entry.tensor.shape,
                    .bytes = entry.tensor.bytes,
                    .file = entry.file->path(),
                    .quantization = {},
                    .parameters = 1};
    for (const std::int64_t n : entry.tensor.shape) info.parameters *= n;
    const std::size_t dot = std::min(name.rfind('.'), name.size());
    if (const auto found = quantized_.find(name.substr(0, dot));
        found != quantized_.end()) {
      const std::string part = name.substr(dot);
      const QuantizationSettings& settings = found->second;
      if (part == ".weight") {
        info.quantization = {.bits = settings.bits,
                             .group_size = settings.group_size};
        info.parameters = info.parameters * 32 / settings.bits;
      } else if (part == ".scales" || part == ".biases") {
        info.parameters = 0;
      }
    }
    result.push_back(std::move(info));
  }
  return result;
}

Result<json> read_json(const fs::path& path) {
  std::error_code none;
  if (!fs::is_regular_file(path, none))
    return Error{
        ErrorKind::not_found,
        fmt::format("'{}' is missing: is the folder a model?", path.string())};
  const auto size = fs::file_size(path, none);
  if (none || size > kJsonBytesMax)
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' has {} bytes (limit {})", path.string(),
                             size, kJsonBytesMax)};
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return Error{ErrorKind::corrupt,
                 fmt::format("cannot read '{}'", path.string())};
  try {
    bool too_deep = false;
    json value = json::parse(text, bounded_depth<json>(too_deep));
    if (too_deep)
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}' is nested deeper than {}", path.string(),
                               kJsonTextDepthMax)};
    if (value.is_object()) return json_result(std::move(value));
  } catch (const json::exception& e) {
    return Error{ErrorKind::corrupt, fmt::format("'{}' is not valid JSON: {}",
                                                 path.string(), e.what())};
  }
  return Error{ErrorKind::corrupt,
               fmt::format("'{}' is not a JSON object", path.string())};
}

// Adds the file's tensors; those in `wanted` only, if it is given.
Result<void> add_file(const fs::path& path, const std::set<std::string>* wanted,
                      Entries& entries) {
  const auto file = SafetensorsFile::open(path.string());
  if (!file) return file.error();
  for (const auto& [name, tensor] : file->tensors()) {
    if (wanted && !wanted->contains(name)) continue;
    const auto [at, fresh] = entries.emplace(name, Entry{file->file(), tensor});
    if (!fresh)
      return Error{ErrorKind::corrupt,
                   fmt::format("tensor '{}' is in '{}' and in '{}'", name,
                               at->second.file->path(), path.string())};
  }
  for (const std::string& name : wanted ? *wanted : std::set<std::string>())
    if (!file->tensors().contains(name))
      return Error{
          ErrorKind::corrupt,
          fmt::format(
              "the index places tensor '{}' in '{}', which does not have it",
              name, path.string())};
  return {};
}

using FilesOfIndex = std::map<std::string, std::set<std::string>>;

// Whoever joined the shards to one file may have left their index. That file's
// tensors, if a shard is not there and it has all that the index lists.
std::optional<Entries> read_instead(const fs::path& folder,
                                    const FilesOfIndex& files) {
  std::error_code none;
  const auto gone = std::find_if(files.begin(), files.end(), [&](auto& file) {
    return !fs::exists(folder / file.first, none);
  });
  const fs::path whole = folder / kWholeName;
  if (gone == files.end() || !fs::exists(whole, none)) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [file, in_it] : files)
    names.insert(in_it.begin(), in_it.end());
  Entries entries;
  if (!add_file(whole, &names, entries)) return std::nullopt;
  spdlog::warn("'{}' names '{}', which is not there; '{}' has all its tensors",
               (folder / kIndexName).string(), gone->first, whole.string());
  return entries;
}

Result<Entries> read_indexed(const fs::path& folder) {
  const fs::path path = folder / kIndexName;
  const auto index = read_json(path);
  if (!index) return index.error();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object())
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' has no object 'weight_map'", path.string())};
  FilesOfIndex files;
  for (const auto& [name, file] : map->items()) {
    const bool plain = file.is_string() &&
                       fs::path(file.get<std::string>()).filename() ==
                           file.get<std::string>() &&
                       file != "" && file != "." && file != "..";
    if (!plain)
      return Error{
          ErrorKind::corrupt,
          fmt::format("'{}' places tensor '{}' in {}, which is not a file name",
                      path.string(), name, file.dump())};
    files[file.get<std::string>()].insert(name);
  }
  if (auto whole = read_instead(folder, files)) return std::move(*whole);
  Entries entries;
  for (const auto& [file, names] : files) {
    const auto added = add_file(folder / file, &names, entries);
    if (!added) return added.error();
  }
  return entries;
}

Result<Entries> read_unindexed(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code failed;
  for (const auto& item : fs::directory_iterator(folder, failed)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("model") && name.ends_with(".safetensors"))
      files.insert(item.path());
  }
  if (failed)
    return Error{
        ErrorKind::invalid,
        fmt::format("cannot list '{}': {}", folder.string(), failed.message())};
  if (files.empty())
    return Error{ErrorKind::not_found,
                 fmt::format("'{}' has neither {} nor model*.safetensors",
                             folder.string(), kIndexName)};
  Entries entries;
  for (const fs::path& file : files) {
    const auto added = add_file(file, nullptr, entries);
    if (!added) return added.error();
  }
  return entries;
}

bool is_floating(SafetensorsType dtype) {
  return dtype == SafetensorsType::f32 || dtype == SafetensorsType::bf16 ||
         dtype == SafetensorsType::f16;
}

// Words, scales and biases of a module must tell of one matrix.
std::optional<Error> find_contradiction(const std::string& module,
                                        const Entries& entries,
                                        const QuantizationSettings& settings) {
  const auto bad = [&](const std::string& what) {
    return Error{
        ErrorKind::corrupt,
        fmt::format("quantized module '{}' in '{}' {}", module,
                    entries.at(module + ".scales").file->path(), what)};
  };
  const auto words_at = entries.find(module + ".weight");
  const auto biases_at = entries.find(module + ".biases");
  if (words_at == entries.end()) return bad("has scales and no weight");
  if (biases_at == entries.end()) return bad("has scales and no biases");
  const SafetensorsTensor& words = words_at->second.tensor;
  const SafetensorsTensor& biases = biases_at->second.tensor;
  const SafetensorsTensor& scales = entries.at(module + ".scales").tensor;
  if (words.dtype != SafetensorsType::u32)
    return bad("has a weight that is not U32");
  if (!is_floating(scales.dtype) || biases.dtype != scales.dtype)
    return bad("has scales and biases that are not of one floating dtype");
  const bool shaped = words.shape.size() >= 2 &&
                      scales.shape.size() == words.shape.size() &&
                      biases.shape == scales.shape &&
                      std::equal(words.shape.begin(), words.shape.end() - 1,
                                 scales.shape.begin()) &&
                      std::int64_t{words.shape.back()} * 32 ==
                          std::int64_t{scales.shape.back()} *
                              settings.group_size * settings.bits;
  if (shaped) return std::nullopt;
  return bad(fmt::format(
      "has words [{}], scales [{}], biases [{}], which do not fit {} bits in "
      "groups of {}",
      fmt::join(words.shape, ", "), fmt::join(scales.shape, ", "),
      fmt::join(biases.shape, ", "), settings.bits, settings.group_size));
}

Result<Settings> read_quantization(const json& config, const Entries& entries) {
  const auto quantization = MlxQuantization::from_config(config);
  if (!quantization) return quantization.error();
  constexpr std::string_view kScales = ".scales";
  Settings result;
  for (const auto& [name, entry] : entries) {
    if (!name.ends_with(kScales)) continue;
    const std::string module = name.substr(0, name.size() - kScales.size());
    const auto settings = quantization->of(module);
    if (!settings) return settings.error();
    if (auto error = find_contradiction(module, entries, *settings))
      return *error;
    result.emplace(module, *settings);
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_safetensors_checkpoint(
    const std::string& folder, Checkpoint::Contents contents) {
  auto config = read_json(fs::path(folder) / "config.json");
  if (!config) return config.error();
  std::error_code none;
  auto entries = fs::exists(fs::path(folder) / kIndexName, none)
                     ? read_indexed(folder)
                     : read_unindexed(folder);
  if (!entries) return entries.error();
  auto quantized = read_quantization(*config, *entries);
  if (!quantized) return quantized.error();
  return std::unique_ptr<Checkpoint>(std::make_unique<SafetensorsCheckpoint>(
      folder, std::move(*config), std::move(*entries), std::move(*quantized),
      contents));
}

}  // namespace reprise
