#include "weights/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "weights/checked_product.h"
#include "weights/json_text.h"

namespace reprise {
namespace {

using nlohmann::json;

constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own

struct TypeInfo {
  const char* name;
  SafetensorsType type;
  std::size_t bytes;
};

constexpr TypeInfo kTensorTypes[] = {
    {"BOOL", SafetensorsType::boolean, 1}, {"U8", SafetensorsType::u8, 1},
    {"I8", SafetensorsType::i8, 1},        {"U16", SafetensorsType::u16, 2},
    {"I16", SafetensorsType::i16, 2},      {"U32", SafetensorsType::u32, 4},
    {"I32", SafetensorsType::i32, 4},      {"U64", SafetensorsType::u64, 8},
    {"I64", SafetensorsType::i64, 8},      {"F16", SafetensorsType::f16, 2},
    {"BF16", SafetensorsType::bf16, 2},    {"F32", SafetensorsType::f32, 4},
    {"F64", SafetensorsType::f64, 8}};

std::optional<SafetensorsType> dtype_named(const std::string& name) {
  for (const TypeInfo& info : kTensorTypes)
    if (name == info.name) return info.type;
  return std::nullopt;
}

template <typename... Args>
Error corrupt(const std::string& path, fmt::format_string<Args...> format,
              Args&&... args) {
  return Error{ErrorKind::corrupt,
               fmt::format("'{}': {}", path,
                           fmt::format(format, std::forward<Args>(args)...))};
}

// A JSON value in an error: short, and never throwing on bad UTF-8.
std::string shown(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace)
      .substr(0, 100);
}

// The header's text, its length checked.
Result<std::string_view> header_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length)
    return corrupt(file.path(),
                   "is cut off: {} bytes, and the header length alone is 8",
                   bytes.size());
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kHeaderBytesMax || length > bytes.size() - sizeof length)
    return corrupt(
        file.path(),
        "claims a header of {} bytes in a file of {} (limit {}): it is not "
        "safetensors, or cut off",
        length, bytes.size(), kHeaderBytesMax);
  return std::string_view(
      reinterpret_cast<const char*>(bytes.data()) + sizeof length, length);
}

Result<json> parse_header(const MappedFile& file, std::string_view text) {
  // The parser keeps the last of equal keys, so count them here.
  std::set<std::string> names;
  std::optional<std::string> twice;
  bool too_deep = false;
  const auto bounded = bounded_depth<json>(too_deep);
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (!bounded(depth, event, value)) return false;
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  try {
    json header = json::parse(text, watch);
    if (too_deep)
      return corrupt(file.path(), "has a header nested deeper than {}",
                     kJsonTextDepthMax);
    if (twice) return corrupt(file.path(), "has the tensor '{}' twice", *twice);
    if (!header.is_object())
      return corrupt(file.path(), "has a header that is not a JSON object: {}",
                     shown(header));
    return json_result(std::move(header));
  } catch (const json::exception& e) {
    return corrupt(file.path(), "has a header that is not JSON: {}", e.what());
  }
}

// The bytes that dtype and shape ask for; fills both.
Result<std::uint64_t> read_kind(const std::string& path,
                                const std::string& name, const json& entry,
                                SafetensorsTensor& tensor) {
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string())
    return corrupt(path, "tensor '{}' has no dtype: {}", name, shown(entry));
  const auto known = dtype_named(dtype->get<std::string>());
  if (!known)
    return Error{
        ErrorKind::unsupported,
        fmt::format("'{}': tensor '{}' has dtype {}, which is not served", path,
                    name, shown(*dtype))};
  tensor.dtype = *known;
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array())
    return corrupt(path, "tensor '{}' has no shape: {}", name, shown(entry));
  for (const json& size : *shape) {
    if (!size.is_number_unsigned() ||
        size.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
      return corrupt(path, "tensor '{}' has {} in its shape", name,
                     shown(size));
    tensor.shape.push_back(size.get<std::int32_t>());
  }
  const auto bytes = checked_product(tensor.shape, item_bytes(tensor.dtype));
  if (!bytes)
    return corrupt(path, "tensor '{}' of shape {} is larger than any file",
                   name, shown(*shape));
  return *bytes;
}

// `data` is where the data begins in the file.
Result<SafetensorsTensor> read_tensor(const MappedFile& file,
                                      const std::string& name,
                                      const json& entry, std::size_t data) {
  const std::string& path = file.path();
  if (!entry.is_object())
    return corrupt(path, "tensor '{}' is not an object: {}", name,
                   shown(entry));
  SafetensorsTensor tensor;
  const auto bytes = read_kind(path, name, entry, tensor);
  if (!bytes) return bytes.error();

  const auto offsets = entry.find("data_offsets");
  const bool pair =
      offsets != entry.end() && offsets->is_array() && offsets->size() == 2 &&
      (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!pair)
    return corrupt(path, "tensor '{}' has no pair of data_offsets: {}", name,
                   shown(entry));
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  const std::uint64_t room = file.bytes().size() - data;
  if (begin > end || end > room)
    return corrupt(
        path,
        "tensor '{}' has data_offsets {}, and the file has {} bytes of data: "
        "it is cut off or damaged; fetch it again",
        name, shown(*offsets), room);
  if (end - begin != *bytes)
    return corrupt(
        path,
        "tensor '{}' of dtype {} and shape {} takes {} bytes, and its "
        "data_offsets {} hold {}",
        name, shown(entry["dtype"]), shown(entry["shape"]), *bytes,
        shown(*offsets), end - begin);
  tensor.offset = data + static_cast<std::size_t>(begin);
  tensor.bytes = static_cast<std::size_t>(*bytes);
  return tensor;
}

std::optional<Error> find_overlap(
    const std::string& path,
    const std::map<std::string, SafetensorsTensor>& tensors) {
  using Entry = std::pair<const std::string, SafetensorsTensor>;
  std::vector<const Entry*> order;
  for (const Entry& entry : tensors)
    if (entry.second.bytes > 0) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return a->second.offset < b->second.offset;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const SafetensorsTensor& before = order[i - 1]->second;
    if (order[i]->second.offset < before.offset + before.bytes)
      return corrupt(path, "tensors '{}' and '{}' overlap", order[i - 1]->first,
                     order[i]->first);
  }
  return std::nullopt;
}

}  // namespace

std::size_t item_bytes(SafetensorsType type) {
  for (const TypeInfo& info : kTensorTypes)
    if (type == info.type) return info.bytes;
  CHECK(false);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  const auto text = header_text(**file);
  if (!text) return text.error();
  auto header = parse_header(**file, *text);
  if (!header) return header.error();

  const std::size_t data = sizeof(std::uint64_t) + text->size();
  SafetensorsFile result;
  result.file_ = *file;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    auto tensor = read_tensor(**file, name, entry, data);
    if (!tensor) return tensor.error();
    result.tensors_.emplace(name, std::move(*tensor));
  }
  if (auto overlap = find_overlap(path, result.tensors_)) return *overlap;
  return result;
}

}  // namespace reprise
