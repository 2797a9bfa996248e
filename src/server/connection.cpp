#include "server/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "server/generation.h"
#include "server/routes.h"

namespace reprise {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

// Sends the reply of this route; returns its status.
awaitable<int> follow(Route route, HttpRequest request, Service& service,
                      std::shared_ptr<Transport> transport) {
  if (auto* reply = std::get_if<HttpReply>(&route.target)) {
    const int status = reply->status;
    co_await transport->send(std::move(*reply));
    co_return status;
  }
  const auto endpoint = std::get<Endpoint>(route.target);
  co_return co_await generate(endpoint, std::move(request.body), service,
                              transport);
}

// A bug of ours met this request. Its client hears so, the others go on.
awaitable<int> apologize(std::string what,
                         std::shared_ptr<Transport> transport) {
  spdlog::error("[server/connection] a request failed: {}", what);
  const Error error{
      ErrorKind::internal,
      fmt::format("The request failed inside the server: {}", what)};
  const bool streaming = transport->streaming();
  transport->no_keep_alive();
  if (streaming) {
    co_await transport->write_events(error_event(500, error));
    co_await transport->end_events();
  } else {
    co_await transport->send(error_reply(error));
  }
  co_return 500;
}

awaitable<void> answer(HttpRequest request, Service& service,
                       std::shared_ptr<Transport> transport) {
  std::string name = "other";
  std::string failure;
  int status = 500;
  try {
    auto route = find_route(request, service);
    name = route.name;
    status = co_await follow(std::move(route), std::move(request), service,
                             transport);
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "unknown reason";
  }
  co_await transport->unwatch();
  if (!failure.empty()) status = co_await apologize(failure, transport);
  service.metrics().count_request(name, status);
}

awaitable<void> serve(std::shared_ptr<Transport> transport, Service& service) {
  while (true) {
    auto incoming = co_await transport->read();
    if (incoming.refusal) {
      service.metrics().count_request("other", incoming.refusal->status);
      co_await transport->send(std::move(*incoming.refusal));
      break;
    }
    if (!incoming.request) co_return;
    co_await answer(std::move(*incoming.request), service, transport);
    if (!transport->keep_alive()) break;
  }
  co_await transport->linger();
}

}  // namespace

awaitable<void> serve_connection(std::shared_ptr<Transport> transport,
                                 Service& service) {
  try {
    co_await serve(transport, service);
  } catch (const std::exception& error) {
    spdlog::error("[server/connection] closed: {}", error.what());
  }
  transport->close();
}

}  // namespace reprise
