#include "cache/sequence_state.h"

#include <fmt/format.h>
#include <mlx/device.h>
#include <mlx/utils.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "base/check.h"

namespace reprise {
namespace {

namespace mx = mlx::core;
using nlohmann::json;

constexpr std::string_view kMagic = "RPRSTATE";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPreamble = kMagic.size() + 2 * sizeof(std::uint32_t);
constexpr std::size_t kHeaderBytesLimit = std::size_t{16} << 20;
constexpr int kLengthMax = 1 << 30;

// Rows of one family that lie together: in one block, or in the slot.
struct Piece {
  int layer = 0;
  int family = 0;
  int block = -1;  // of the sequence; -1: the slot
  RowRange rows;   // within the block
  std::size_t bytes = 0;
};

RowRange rows_in_block(const Growth& growth, int length, int block) {
  const int per_block = rows_per_block(growth);
  const RowRange all = rows_at(growth, length);
  const int first = block * per_block;
  const int begin = std::clamp(all.begin - first, 0, per_block);
  return {begin, std::clamp(all.end - first, begin, per_block)};
}

// Calls each(Piece) for block `block`, or for the slot.
template <typename Each>
void for_each_piece(const StateLayout& layout, int length, int block,
                    Each each) {
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (std::size_t f = 0; f < layout[l].size(); ++f) {
      const StateFamily& family = layout[l][f];
      if (std::holds_alternative<Snapshot>(family.growth) != (block < 0))
        continue;
      const RowRange rows = block < 0
                                ? RowRange{0, 1}
                                : rows_in_block(family.growth, length, block);
      const int first = std::max(block, 0) * rows_per_block(family.growth);
      each(Piece{
          .layer = static_cast<int>(l),
          .family = static_cast<int>(f),
          .block = block,
          .rows = rows,
          .bytes = family.bytes_of({first + rows.begin, first + rows.end})});
    }
}

std::vector<Piece> pieces(const StateLayout& layout, int length) {
  std::vector<Piece> all;
  const auto add = [&](const Piece& piece) { all.push_back(piece); };
  for (int block = 0; block < blocks_for(length); ++block)
    for_each_piece(layout, length, block, add);
  if (length > 0) for_each_piece(layout, length, -1, add);
  return all;
}

std::string place(int layer, const StateFamily& family) {
  return fmt::format("layer {}, \"{}\"", layer, family.name);
}

json identity(const StateFamily& family) {
  std::ostringstream dtype;
  dtype << family.dtype;
  const auto& quantized = family.quantized;
  return {{"name", family.name},
          {"growth", describe(family.growth)},
          {"dtype", dtype.str()},
          {"row", family.row_elements},
          {"stored",
           quantized ? fmt::format("{} bits in groups of {} from {}",
                                   quantized->codec.bits,
                                   quantized->codec.group_size, quantized->from)
                     : "plain"}};
}

// What is there may be anything, of any depth.
std::string shown(const json& value) {
  return value.is_primitive() ? value.dump() : value.type_name();
}

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

Error corrupt(const std::string& message) {
  return {.kind = ErrorKind::corrupt, .message = "[state] " + message};
}

std::optional<Error> compare(int layer, const StateFamily& ours,
                             const json& stored) {
  if (!stored.is_object())
    return corrupt(fmt::format("{}: the saved family is {}, not an object",
                               place(layer, ours), stored.type_name()));
  const json expected = identity(ours);
  for (const char* key : {"name", "growth", "dtype", "row", "stored"}) {
    const json& have = stored.contains(key) ? stored[key] : json();
    if (have != expected[key])
      return corrupt(fmt::format("{}: saved with {} {}, this model has {}",
                                 place(layer, ours), key, shown(have),
                                 shown(expected[key])));
  }
  return std::nullopt;
}

std::optional<Error> compare(const StateLayout& ours, const json& layers) {
  if (!layers.is_array() || layers.size() != ours.size())
    return corrupt(fmt::format("saved with {} layers, this model has {}",
                               layers.size(), ours.size()));
  for (std::size_t l = 0; l < ours.size(); ++l) {
    if (!layers[l].is_array() || layers[l].size() != ours[l].size())
      return corrupt(
          fmt::format("layer {}: saved with {} families, this model has {}", l,
                      layers[l].size(), ours[l].size()));
    for (std::size_t f = 0; f < ours[l].size(); ++f)
      if (auto error = compare(static_cast<int>(l), ours[l][f], layers[l][f]))
        return error;
  }
  return std::nullopt;
}

struct Header {
  int length = 0;
  std::size_t data = 0;  // where the rows begin
};

Result<Header> read_header(std::string_view bytes, const StateLayout& layout) {
  if (bytes.size() < kPreamble || !bytes.starts_with(kMagic))
    return corrupt("these bytes are no saved state");
  const std::uint32_t version = read_u32(bytes, kMagic.size());
  if (version != kVersion)
    return corrupt(fmt::format("saved in format {}, this build reads {}",
                               version, kVersion));
  const std::size_t size = read_u32(bytes, kMagic.size() + sizeof(version));
  if (size > std::min(bytes.size() - kPreamble, kHeaderBytesLimit))
    return corrupt(fmt::format("a header of {} bytes in {} bytes", size,
                               bytes.size() - kPreamble));
  const json header =
      json::parse(bytes.substr(kPreamble, size), nullptr, false);
  if (!header.is_object()) return corrupt("the header is no JSON object");
  const json layers = header.value("layers", json());
  if (auto error = compare(layout, layers)) return *error;
  const json tokens = header.value("block_tokens", json());
  if (tokens != kBlockTokens)
    return corrupt(
        fmt::format("saved in blocks of {} tokens, this build has {}",
                    shown(tokens), kBlockTokens));
  const json length = header.value("length", json());
  if (!length.is_number_unsigned() ||
      length.get<std::uint64_t>() > std::uint64_t{kLengthMax})
    return corrupt(
        fmt::format("a length of {}, not 0 to {}", shown(length), kLengthMax));
  return Header{.length = length.get<int>(), .data = kPreamble + size};
}

std::optional<Error> check_size(const StateLayout& layout,
                                const std::vector<Piece>& all,
                                std::size_t have) {
  std::size_t end = 0;
  for (const Piece& piece : all) {
    if (end + piece.bytes > have)
      return corrupt(
          fmt::format("{}: {} of {} bytes are there, so the file is truncated",
                      place(piece.layer, layout[piece.layer][piece.family]),
                      std::max(have, end) - end, piece.bytes));
    end += piece.bytes;
  }
  if (have == end) return std::nullopt;
  const std::string last =
      all.empty() ? std::string("the header")
                  : place(all.back().layer,
                          layout[all.back().layer][all.back().family]);
  return corrupt(
      fmt::format("{} bytes of rows where {} end behind {}", have, end, last));
}

std::optional<Error> check_room(const BlockPools& pools,
                                const SequenceState& into, int length) {
  const auto needed = static_cast<std::size_t>(blocks_for(length));
  if (into.blocks.size() >= needed) return std::nullopt;
  return Error{
      .kind = ErrorKind::too_large,
      .message = fmt::format(
          "[state] {} tokens need {} blocks of {} bytes, and {} are "
          "there",
          length, needed, block_bytes(pools.layout()), into.blocks.size())};
}

void check_ids(const BlockPools& pools, const SequenceState& state) {
  if (mx::default_device().type != mx::Device::DeviceType::cpu)
    throw std::runtime_error("[state] is saved on the CPU only in this build");
  CHECK(state.length >= 0 &&
            blocks_for(state.length) <= static_cast<int>(state.blocks.size()),
        "{} tokens in {} blocks", state.length, state.blocks.size());
  for (int b = 0; b < blocks_for(state.length); ++b)
    CHECK(state.blocks[b] >= 0 && state.blocks[b] < pools.block_count(),
          "block {}", state.blocks[b]);
  CHECK(state.length == 0 || pools.slot_count() == 0 ||
            (state.slot >= 0 && state.slot < pools.slot_count()),
        "slot {} of {}", state.slot, pools.slot_count());
}

char* address(const BlockPools& pools, const SequenceState& state,
              const Piece& piece) {
  const StateFamily& family = pools.layout()[piece.layer][piece.family];
  const kernels::StateRows& rows = pools.rows(piece.layer, piece.family);
  // A block is on one side of the start.
  const bool quantized =
      family.quantized && piece.block >= family.quantized->from / kBlockTokens;
  mx::array pool = quantized ? *rows.quantized : rows.plain;
  const auto row = piece.block < 0 ? std::int64_t{state.slot}
                                   : std::int64_t{state.blocks[piece.block]} *
                                             rows_per_block(family.growth) +
                                         piece.rows.begin;
  return pool.data<char>() +
         static_cast<std::size_t>(row) *
             (quantized ? family.row_bytes() : family.plain_row_bytes());
}

void append_u32(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

Cut cut_to(const StateLayout& layout, const SequenceState& state, int tokens) {
  if (tokens < 0 || tokens > state.length)
    return {false, fmt::format("{} tokens are not between 0 and the {} there",
                               tokens, state.length)};
  if (tokens == 0) return {};  // of nothing, nothing is needed
  for (std::size_t l = 0; l < layout.size(); ++l)
    for (const StateFamily& family : layout[l]) {
      const RowRange held{rows_at(family.growth, state.restored).begin,
                          rows_at(family.growth, state.length).end};
      if (!can_cut(family.growth, held, state.length, tokens))
        return {false,
                fmt::format("{} ({}) cannot go from {} to {} tokens",
                            place(static_cast<int>(l), family),
                            describe(family.growth), state.length, tokens)};
    }
  return {};
}

std::size_t bytes_of_block(const StateLayout& layout, int length, int block) {
  std::size_t bytes = 0;
  for_each_piece(layout, length, block,
                 [&](const Piece& piece) { bytes += piece.bytes; });
  return bytes;
}

std::string to_bytes(const BlockPools& pools, const SequenceState& state) {
  check_ids(pools, state);
  json layers = json::array();
  for (const LayerState& layer : pools.layout()) {
    layers.push_back(json::array());
    for (const StateFamily& family : layer)
      layers.back().push_back(identity(family));
  }
  const std::string header = json{
      {"length", state.length},
      {"block_tokens", kBlockTokens},
      {"layers",
       std::move(layers)}}.dump();
  CHECK(header.size() <= kHeaderBytesLimit, "{} bytes", header.size());
  std::string out(kMagic);
  out.reserve(kPreamble + header.size() +
              state_bytes(pools.layout(), state.length));
  append_u32(out, kVersion);
  append_u32(out, static_cast<std::uint32_t>(header.size()));
  out += header;
  for (const Piece& piece : pieces(pools.layout(), state.length))
    if (piece.bytes > 0) out.append(address(pools, state, piece), piece.bytes);
  return out;
}

Result<SequenceState> from_bytes(std::string_view bytes,
                                 const BlockPools& pools, SequenceState into) {
  const StateLayout& layout = pools.layout();
  const auto header = read_header(bytes, layout);
  if (!header) return header.error();
  // Before anything is made that grows with a length that nobody vouched for.
  if (auto error = check_room(pools, into, header->length)) return *error;
  const auto all = pieces(layout, header->length);
  bytes.remove_prefix(header->data);
  if (auto error = check_size(layout, all, bytes.size())) return *error;

  into.length = into.restored = header->length;
  into.blocks.resize(static_cast<std::size_t>(blocks_for(header->length)));
  check_ids(pools, into);
  for (const Piece& piece : all) {
    if (piece.bytes > 0)
      std::memcpy(address(pools, into, piece), bytes.data(), piece.bytes);
    bytes.remove_prefix(piece.bytes);
  }
  return into;
}

}  // namespace reprise
