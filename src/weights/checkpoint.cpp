#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>

#include "weights/gguf_checkpoint.h"
#include "weights/safetensors_checkpoint.h"

namespace reprise {

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status)) return open_safetensors_checkpoint(path);
  if (fs::is_regular_file(status)) {
    if (fs::path(path).extension() == ".safetensors")
      return Error{
          ErrorKind::invalid,
          fmt::format(
              "'{}' is a single safetensors file; give the folder that has it "
              "and its config.json",
              path)};
    return open_gguf_checkpoint(path);
  }
  return Error{
      ErrorKind::not_found,
      fmt::format(
          "no model at '{}': give a folder with config.json and safetensors "
          "files, or a GGUF file",
          path)};
}

}  // namespace reprise
