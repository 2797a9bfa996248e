// One connection: requests are read, answered and counted one after another,
// until either side has enough. Never throws: what a request throws ends that
// request with a 500.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/service.h"
#include "server/transport.h"

namespace reprise {

// `service` outlives the coroutine.
boost::asio::awaitable<void> serve_connection(
    std::shared_ptr<Transport> transport, Service& service);

}  // namespace reprise
