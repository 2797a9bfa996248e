#include "server/http.h"

#include "api/errors.h"

namespace reprise {

HttpReply error_reply(int status, const Error& error) {
  HttpReply reply{.status = status, .body = dump(error_body(status, error))};
  if (status == 429 || status == 503)
    reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply error_reply(const Error& error) {
  return error_reply(http_status(error), error);
}

}  // namespace reprise
