// One connection: requests are read, answered, counted and logged one after
// another, until either side has enough. Never throws: what a request throws
// ends that request with a 500.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/service.h"
#include "server/transport.h"

namespace reprise {

// `service` outlives the coroutine.
boost::asio::awaitable<void> serve_connection(
    std::shared_ptr<Transport> transport, Service& service);

// One too many: says so with a 503 and closes.
boost::asio::awaitable<void> turn_away(std::shared_ptr<Transport> transport,
                                       Service& service);

}  // namespace reprise
