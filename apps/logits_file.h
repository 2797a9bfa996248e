// A safetensors file of a prompt and its logits, written span by span, so that
// a long one needs no memory. It lies under another name until it is whole.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "base/result.h"
#include "request/request.h"

namespace reprise {

class LogitsFile {
 public:
  // Tensors `input_ids` int32 [ids.size()] and `logits` float32 [ids.size(),
  // vocabulary]. Write all of the latter with append(), then finish().
  LogitsFile(std::string path, std::span<const TokenId> ids, int vocabulary);
  ~LogitsFile();  // removes what is not finished
  LogitsFile(const LogitsFile&) = delete;
  LogitsFile& operator=(const LogitsFile&) = delete;

  void append(std::span<const float> logits);

  // Errors: internal, when any of it could not be written.
  Result<void> finish();

 private:
  const std::string path_;
  const std::string partial_path_;
  std::ofstream file_;
};

}  // namespace reprise
