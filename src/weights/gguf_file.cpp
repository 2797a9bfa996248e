#include "weights/gguf_file.h"

#include <algorithm>
#include <limits>

#include "weights/gguf_parser.h"

namespace reprise {
namespace {

GgufType type_number(std::uint32_t number) {
  return static_cast<GgufType>(number);
}

// ggml's GGML_TYPE_* numbers with their block geometry. Those we cannot serve
// are here so that an error can call them by name.
const GgufTypeInfo kTypes[] = {
    {GgufType::f32, "F32", 1, 4},
    {GgufType::f16, "F16", 1, 2},
    {GgufType::q4_0, "Q4_0", 32, 18},
    {GgufType::q4_1, "Q4_1", 32, 20},
    {type_number(6), "Q5_0", 32, 22},
    {type_number(7), "Q5_1", 32, 24},
    {GgufType::q8_0, "Q8_0", 32, 34},
    {type_number(9), "Q8_1", 32, 36},
    {type_number(10), "Q2_K", 256, 84},
    {type_number(11), "Q3_K", 256, 110},
    {type_number(12), "Q4_K", 256, 144},
    {type_number(13), "Q5_K", 256, 176},
    {type_number(14), "Q6_K", 256, 210},
    {type_number(15), "Q8_K", 256, 292},
    {type_number(16), "IQ2_XXS", 256, 66},
    {type_number(17), "IQ2_XS", 256, 74},
    {type_number(18), "IQ3_XXS", 256, 98},
    {type_number(19), "IQ1_S", 256, 50},
    {type_number(20), "IQ4_NL", 32, 18},
    {type_number(21), "IQ3_S", 256, 110},
    {type_number(22), "IQ2_S", 256, 82},
    {type_number(23), "IQ4_XS", 256, 136},
    {type_number(24), "I8", 1, 1},
    {type_number(25), "I16", 1, 2},
    {type_number(26), "I32", 1, 4},
    {type_number(27), "I64", 1, 8},
    {type_number(28), "F64", 1, 8},
    {type_number(29), "IQ1_M", 256, 56},
    {GgufType::bf16, "BF16", 1, 2},
    {type_number(34), "TQ1_0", 256, 54},
    {type_number(35), "TQ2_0", 256, 66},
    {type_number(39), "MXFP4", 32, 17},
};

std::optional<std::int64_t> narrowed(std::uint64_t value) {
  if (value >
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace

const GgufTypeInfo* gguf_type_info(GgufType type) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const GgufTypeInfo& info) { return info.type == type; });
  return found == std::end(kTypes) ? nullptr : found;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  return GgufParser(*file).parse();
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const std::string* GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  return value ? std::get_if<std::string>(value) : nullptr;
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* array = value ? std::get_if<GgufArray>(value) : nullptr;
  return array ? std::get_if<std::vector<std::string>>(array) : nullptr;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(value))
    return narrowed(*number);
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(
    std::string_view key) const {
  const GgufValue* value = find(key);
  const auto* array = value ? std::get_if<GgufArray>(value) : nullptr;
  if (!array) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(array))
    return *numbers;
  const auto* numbers = std::get_if<std::vector<std::uint64_t>>(array);
  if (!numbers) return std::nullopt;
  std::vector<std::int64_t> result;
  result.reserve(numbers->size());
  for (const std::uint64_t number : *numbers) {
    const auto fits = narrowed(number);
    if (!fits) return std::nullopt;
    result.push_back(*fits);
  }
  return result;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto whole = integer(key)) return static_cast<double>(*whole);
  return std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  const bool* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag ? std::optional<bool>(*flag) : std::nullopt;
}

}  // namespace reprise
