// One request whose reply takes its time, from its body to the last byte.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "server/access_log.h"
#include "server/routes.h"
#include "server/service.h"
#include "server/transport.h"

namespace reprise {

// Answers on the transport: one reply, an event stream, or an error. Returns
// the HTTP status that was sent, 499 where the client left before any was. The
// engine's request is cancelled as soon as the client is gone, whether it
// waits, computes or streams, and when an exception ends this. The transport
// is left watching: its owner calls unwatch(). The counts of tokens go into the
// record as they become known, so that they are there however this ends.
boost::asio::awaitable<int> generate(Endpoint endpoint, std::string body,
                                     Service& service,
                                     std::shared_ptr<Transport> transport,
                                     RequestRecord& record);

// An error that comes after an event stream began, as its last event.
std::string error_event(int status, const Error& error);

}  // namespace reprise
