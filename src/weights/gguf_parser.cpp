#include "weights/gguf_parser.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weights/checked_product.h"

namespace reprise {
namespace {

// Far above what any model has, far below what would hurt.
constexpr std::uint64_t kKeysMax = 1 << 16;
constexpr std::uint64_t kTensorsMax = 1 << 20;
constexpr std::uint64_t kElementsMax = 1 << 26;
constexpr std::uint64_t kNameBytesMax = 1 << 16;
constexpr std::uint64_t kStringBytesMax = 1 << 28;
constexpr std::uint32_t kDimensionsMax = 4;  // GGML_MAX_DIMS
constexpr std::uint64_t kAlignmentMax = 1 << 20;
constexpr std::uint64_t kAlignmentDefault = 32;

// GGUF_METADATA_VALUE_TYPE_*
enum ValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// The fewest bytes a value of this type takes, 0 for a type not known.
std::uint64_t value_bytes_min(std::uint32_t type) {
  constexpr std::uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// Bytes as a person can read them in an error.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const unsigned char c : bytes.substr(0, 100))
    text += c >= 0x20 && c < 0x7f ? std::string(1, static_cast<char>(c))
                                  : fmt::format("\\x{:02x}", c);
  return text;
}

}  // namespace

bool GgufReader::take(std::uint64_t size, std::string_view what) {
  if (failed()) return false;
  if (size > remaining()) {
    fail(ErrorKind::corrupt,
         "{} needs {} bytes at byte {}, and the file ends at byte {}: it is "
         "cut off or damaged; fetch it again",
         what, size, at_, bytes_.size());
    return false;
  }
  at_ += static_cast<std::size_t>(size);
  return true;
}

std::string GgufReader::string(std::string_view what,
                               std::uint64_t length_max) {
  const auto length = read<std::uint64_t>(what);
  if (length > length_max)
    fail(ErrorKind::corrupt, "{} claims a length of {} bytes (limit {})", what,
         length, length_max);
  if (!take(length, what)) return {};
  return std::string(
      reinterpret_cast<const char*>(bytes_.data()) + at_ - length, length);
}

Result<GgufFile> GgufParser::parse() {
  GgufFile out;
  out.file_ = file_;
  read_version(out);
  const auto tensors = reader_.read<std::uint64_t>("the tensor count");
  const auto keys = reader_.read<std::uint64_t>("the metadata count");
  // A tensor takes at least 32 bytes of header, a key 13.
  if (tensors > kTensorsMax || tensors > reader_.remaining() / 32)
    reader_.fail(
        ErrorKind::corrupt,
        "claims {} tensors, more than fit into its {} bytes (limit {})",
        tensors, file_->bytes().size(), kTensorsMax);
  if (keys > kKeysMax || keys > reader_.remaining() / 13)
    reader_.fail(
        ErrorKind::corrupt,
        "claims {} metadata keys, more than fit into its {} bytes (limit {})",
        keys, file_->bytes().size(), kKeysMax);
  read_metadata(out, keys);
  read_tensors(out, tensors);
  place_tensors(out);
  if (reader_.failed()) return reader_.error();
  return out;
}

void GgufParser::read_version(GgufFile& out) {
  const auto magic = reader_.read<std::array<char, 4>>("the magic");
  const std::string_view text(magic.data(), magic.size());
  if (text != "GGUF")
    reader_.fail(ErrorKind::corrupt,
                 "is not a GGUF file: it begins with '{}' instead of 'GGUF'",
                 printable(text));
  out.version_ = reader_.read<std::uint32_t>("the version");
  if (out.version_ == 2 || out.version_ == 3) return;
  const bool swapped =
      out.version_ == 0x02000000u || out.version_ == 0x03000000u;
  reader_.fail(ErrorKind::unsupported,
               "has GGUF version {}{}; versions 2 and 3 are read", out.version_,
               swapped ? " (a big-endian file)" : "");
}

void GgufParser::read_metadata(GgufFile& out, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count && !reader_.failed(); ++i) {
    std::string key =
        reader_.string(fmt::format("metadata key {}", i), kNameBytesMax);
    const auto type = reader_.read<std::uint32_t>("a metadata type");
    if (reader_.failed()) return;
    GgufValue value = read_value(type, key);
    if (reader_.failed()) return;
    const auto [at, fresh] = out.metadata_.emplace(key, std::move(value));
    if (!fresh)
      reader_.fail(ErrorKind::corrupt, "has the metadata key '{}' twice",
                   printable(key));
  }
}

GgufValue GgufParser::read_value(std::uint32_t type, const std::string& key) {
  const std::string what = fmt::format("metadata '{}'", printable(key));
  switch (type) {
    case kUint8:
      return std::uint64_t{reader_.read<std::uint8_t>(what)};
    case kUint16:
      return std::uint64_t{reader_.read<std::uint16_t>(what)};
    case kUint32:
      return std::uint64_t{reader_.read<std::uint32_t>(what)};
    case kUint64:
      return reader_.read<std::uint64_t>(what);
    case kInt8:
      return std::int64_t{reader_.read<std::int8_t>(what)};
    case kInt16:
      return std::int64_t{reader_.read<std::int16_t>(what)};
    case kInt32:
      return std::int64_t{reader_.read<std::int32_t>(what)};
    case kInt64:
      return reader_.read<std::int64_t>(what);
    case kFloat32:
      return double{reader_.read<float>(what)};
    case kFloat64:
      return reader_.read<double>(what);
    case kBool:
      return reader_.read<std::uint8_t>(what) != 0;
    case kString:
      return reader_.string(what, kStringBytesMax);
    case kArray:
      return read_array(key);
    default:
      reader_.fail(ErrorKind::corrupt, "{} has the unknown value type {}", what,
                   type);
      return false;
  }
}

GgufArray GgufParser::read_array(const std::string& key) {
  const std::string what = fmt::format("metadata '{}'", printable(key));
  const auto type = reader_.read<std::uint32_t>(what);
  const auto count = reader_.read<std::uint64_t>(what);
  const std::uint64_t bytes = value_bytes_min(type);
  if (bytes == 0)
    reader_.fail(ErrorKind::corrupt,
                 "{} is an array of the unknown value type {}", what, type);
  else if (type == kArray)
    reader_.fail(ErrorKind::unsupported,
                 "{} is an array of arrays, which is not read", what);
  else if (count > kElementsMax || count > reader_.remaining() / bytes)
    reader_.fail(
        ErrorKind::corrupt,
        "{} claims {} elements, more than fit into the file (limit {})", what,
        count, kElementsMax);
  // The first element says which alternative all of them are.
  const auto fill = [&]<typename T>(std::vector<T> list) -> GgufArray {
    list.reserve(reader_.failed() ? 0 : count);
    for (std::uint64_t i = 0; i < count && !reader_.failed(); ++i)
      list.push_back(std::get<T>(read_value(type, key)));
    return list;
  };
  switch (type) {
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
      return fill(std::vector<std::int64_t>());
    case kFloat32:
    case kFloat64:
      return fill(std::vector<double>());
    case kBool:
      return fill(std::vector<bool>());
    case kString:
      return fill(std::vector<std::string>());
    default:
      return fill(std::vector<std::uint64_t>());
  }
}

void GgufParser::read_tensors(GgufFile& out, std::uint64_t count) {
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < count && !reader_.failed(); ++i) {
    GgufTensor tensor = read_tensor();
    if (reader_.failed()) return;
    if (!names.insert(tensor.name).second)
      reader_.fail(ErrorKind::corrupt, "has the tensor '{}' twice",
                   printable(tensor.name));
    out.tensors_.push_back(std::move(tensor));
  }
}

GgufTensor GgufParser::read_tensor() {
  GgufTensor tensor;
  tensor.name = reader_.string("a tensor's name", kNameBytesMax);
  read_shape(tensor);
  tensor.type =
      static_cast<GgufType>(reader_.read<std::uint32_t>("a tensor's type"));
  tensor.offset = reader_.read<std::uint64_t>("a tensor's offset");
  if (reader_.failed()) return tensor;

  const std::string name = printable(tensor.name);
  const GgufTypeInfo* type = gguf_type_info(tensor.type);
  if (!type) {
    reader_.fail(ErrorKind::unsupported,
                 "tensor '{}' has the unknown type number {}", name,
                 static_cast<std::uint32_t>(tensor.type));
    return tensor;
  }
  const auto row = static_cast<std::uint64_t>(tensor.shape.back());
  if (row % type->elements != 0) {
    reader_.fail(
        ErrorKind::corrupt,
        "tensor '{}' of type {} has rows of {} elements, not a multiple of {}",
        name, type->name, row, type->elements);
    return tensor;
  }
  // Divided first: the row is a whole number of blocks.
  const auto rows =
      checked_product(std::span(tensor.shape).first(tensor.shape.size() - 1),
                      row / type->elements);
  const auto bytes =
      rows ? checked_product(std::initializer_list<std::uint64_t>{type->bytes},
                             *rows)
           : std::nullopt;
  if (!bytes || *bytes > file_->bytes().size()) {
    reader_.fail(
        ErrorKind::corrupt,
        "tensor '{}' of type {} and shape [{}] is larger than the file ({} "
        "bytes)",
        name, type->name, fmt::join(tensor.shape, ", "), file_->bytes().size());
    return tensor;
  }
  tensor.bytes = static_cast<std::size_t>(*bytes);
  return tensor;
}

void GgufParser::read_shape(GgufTensor& tensor) {
  const std::string name = printable(tensor.name);
  const auto count = reader_.read<std::uint32_t>("a tensor's dimensions");
  if (!reader_.failed() && (count == 0 || count > kDimensionsMax))
    reader_.fail(ErrorKind::corrupt,
                 "tensor '{}' has {} dimensions (1 to {} are valid)", name,
                 count, kDimensionsMax);
  for (std::uint32_t i = 0; i < count && !reader_.failed(); ++i) {
    const auto size = reader_.read<std::uint64_t>("a tensor's shape");
    if (reader_.failed()) return;
    if (size == 0 || size > std::numeric_limits<std::int32_t>::max())
      reader_.fail(ErrorKind::corrupt, "tensor '{}' has {} as its dimension {}",
                   name, size, i);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int32_t>(size));
  }
}

std::uint64_t GgufParser::alignment(const GgufFile& out) {
  const GgufValue* value = out.find("general.alignment");
  if (!value) return kAlignmentDefault;
  const auto size = out.integer("general.alignment");
  if (size && *size > 0 && std::uint64_t(*size) <= kAlignmentMax &&
      std::has_single_bit(std::uint64_t(*size)))
    return static_cast<std::uint64_t>(*size);
  reader_.fail(ErrorKind::corrupt,
               "has general.alignment {}, which is not a power of two up to {}",
               size ? std::to_string(*size) : "of another kind than integer",
               kAlignmentMax);
  return kAlignmentDefault;
}

// Offsets are relative to the first aligned byte behind the header; here they
// become offsets in the file.
void GgufParser::place_tensors(GgufFile& out) {
  if (reader_.failed()) return;
  const std::uint64_t align = alignment(out);
  const std::uint64_t start = (reader_.position() + align - 1) / align * align;
  const std::uint64_t size = file_->bytes().size();
  const std::uint64_t room = start < size ? size - start : 0;
  std::vector<const GgufTensor*> order;
  for (GgufTensor& tensor : out.tensors_) {
    const std::string name = printable(tensor.name);
    if (tensor.offset % align != 0)
      reader_.fail(
          ErrorKind::corrupt,
          "tensor '{}' begins at offset {}, not a multiple of the alignment {}",
          name, tensor.offset, align);
    if (tensor.offset > room || tensor.bytes > room - tensor.offset)
      reader_.fail(
          ErrorKind::corrupt,
          "tensor '{}' of {} bytes at offset {} ends behind the file's {} "
          "bytes of tensor data: the file is cut off or damaged; fetch it "
          "again",
          name, tensor.bytes, tensor.offset, room);
    if (reader_.failed()) return;
    tensor.offset += start;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      reader_.fail(ErrorKind::corrupt, "tensors '{}' and '{}' overlap",
                   printable(order[i - 1]->name), printable(order[i]->name));
}

}  // namespace reprise
