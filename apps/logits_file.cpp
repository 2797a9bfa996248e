#include "logits_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace reprise {
namespace {

static_assert(std::endian::native == std::endian::little);

// Format: huggingface/safetensors, README "Format".
std::string header_of(std::size_t tokens, int vocabulary) {
  const std::size_t ids = tokens * sizeof(TokenId);
  const std::size_t logits =
      tokens * static_cast<std::size_t>(vocabulary) * sizeof(float);
  const nlohmann::json header = {
      {"input_ids",
       {{"dtype", "I32"}, {"shape", {tokens}}, {"data_offsets", {0, ids}}}},
      {"logits",
       {{"dtype", "F32"},
        {"shape", {tokens, vocabulary}},
        {"data_offsets", {ids, ids + logits}}}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

template <typename T>
void write(std::ofstream& file, std::span<const T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

}  // namespace

LogitsFile::LogitsFile(std::string path, std::span<const TokenId> ids,
                       int vocabulary)
    : path_(std::move(path)),
      partial_path_(path_ + ".part"),
      file_(partial_path_, std::ios::binary | std::ios::trunc) {
  const std::string header = header_of(ids.size(), vocabulary);
  const std::uint64_t size = header.size();
  write(file_, std::span(&size, 1));
  write(file_, std::span<const char>(header));
  write(file_, ids);
}

LogitsFile::~LogitsFile() {
  if (file_.is_open()) std::remove(partial_path_.c_str());
}

void LogitsFile::append(std::span<const float> logits) {
  write(file_, logits);
}

Result<void> LogitsFile::finish() {
  const bool open = file_.is_open();
  file_.close();
  if (file_ && std::rename(partial_path_.c_str(), path_.c_str()) == 0)
    return {};
  if (open) std::remove(partial_path_.c_str());
  return Error{ErrorKind::internal,
               fmt::format("'{}' could not be written: is the folder there, "
                           "and the disk not full?",
                           path_)};
}

}  // namespace reprise
