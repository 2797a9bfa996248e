#include "text/crate.h"

namespace reprise::crate {
namespace {

ErrorKind kind(int status) {
  switch (status) {
    case REPRISE_INVALID:
      return ErrorKind::invalid;
    case REPRISE_UNSUPPORTED:
      return ErrorKind::unsupported;
    case REPRISE_CORRUPT:
      return ErrorKind::corrupt;
    default:
      return ErrorKind::internal;
  }
}

}  // namespace

std::string take(reprise_buffer buffer) {
  std::string out(buffer.data, buffer.size);
  reprise_buffer_free(buffer);
  return out;
}

std::vector<std::uint32_t> take(reprise_ids ids) {
  std::vector<std::uint32_t> out(ids.data, ids.data + ids.size);
  reprise_ids_free(ids);
  return out;
}

Error error(int status) {
  const reprise_text message = reprise_last_error();
  return Error{kind(status), std::string(message.data, message.size)};
}

}  // namespace reprise::crate
