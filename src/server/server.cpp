#include "server/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <list>
#include <thread>
#include <utility>

#include "server/connection.h"
#include "server/service.h"
#include "server/transport.h"

namespace reprise {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// After accept() failed for want of file descriptors.
constexpr std::chrono::milliseconds kAcceptPause{50};
// A connection over the limit waits so long for a place (one whose reply was
// just read gives up its own in no time), then it is told so. Further ones
// than this many are closed without a word.
constexpr std::chrono::milliseconds kRoomWait{100};
constexpr std::size_t kOverLimitMax = 64;

}  // namespace

struct Server::State {
  explicit State(const ServerOptions& options) : service(options) {}

  Result<tcp::endpoint> resolve();
  awaitable<void> accept_loop();
  awaitable<void> serve_one(std::shared_ptr<Transport> transport);
  bool make_room();
  awaitable<void> wait_for_room(std::shared_ptr<Transport> transport);
  void drain(std::chrono::milliseconds grace);

  Service service;
  asio::io_context io{1};
  std::thread thread;

  // Of the I/O thread, once it runs.
  tcp::acceptor acceptor{io};
  asio::steady_timer grace_timer{io};
  std::list<std::shared_ptr<Transport>> connections;  // by arrival
  std::list<std::shared_ptr<Transport>> over_limit;  // and not in `connections`
  bool draining = false;
  std::uint16_t port = 0;
};

Server::Server(const ServerOptions& options)
    : state_(std::make_unique<State>(options)) {}

Server::~Server() {
  stop(std::chrono::milliseconds(0));
}

Result<tcp::endpoint> Server::State::resolve() {
  const auto& options = service.options();
  // The resolver takes an empty name for every address of the machine.
  if (options.host.empty())
    return Error{ErrorKind::invalid,
                 "The host is empty. Give 127.0.0.1, or 0.0.0.0 for every "
                 "address of this machine.",
                 "host"};
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(
      options.host, std::to_string(options.port),
      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty())
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "'{}' is not an address of this machine ({}). Try 127.0.0.1 or "
            "0.0.0.0.",
            options.host, error.message()),
        "host"};
  return found.begin()->endpoint();
}

Result<void> Server::start() {
  auto& s = *state_;
  const auto endpoint = s.resolve();
  if (!endpoint) return endpoint.error();
  error_code error;
  s.acceptor.open(endpoint->protocol(), error);
  if (!error) s.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) s.acceptor.bind(*endpoint, error);
  if (!error)
    s.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "Cannot listen on {} port {}: {}. Choose another address or port "
            "(0 takes any free one).",
            s.service.options().host, s.service.options().port,
            error.message()),
        "port"};
  s.port = s.acceptor.local_endpoint().port();
  const bool loopback = endpoint->address().is_loopback();
  s.service.set_on_loopback(loopback);
  if (!loopback && s.service.options().api_keys.empty())
    spdlog::warn(
        "everybody who reaches {} can use this server: start it with --api-key "
        "or --api-key-file, or with --host 127.0.0.1",
        s.service.options().host);
  asio::co_spawn(s.io, s.accept_loop(), asio::detached);
  s.thread = std::thread([&s] { s.io.run(); });
  return {};
}

std::uint16_t Server::port() const {
  return state_->port;
}

void Server::observe_step(const StepReport& report) {
  state_->service.metrics().observe_step(report);
}

void Server::set_model(ModelServices model, GenerationBackend backend) {
  state_->service.set_model(std::move(model), std::move(backend));
}

awaitable<void> Server::State::accept_loop() {
  constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
  asio::steady_timer pause(io);
  while (!draining) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (draining) break;
    if (error) {
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(kAwait);
      continue;
    }
    auto transport = std::make_shared<Transport>(
        std::move(socket), service.options(), service.bodies());
    if (make_room()) {
      connections.push_back(transport);
      asio::co_spawn(io, serve_one(std::move(transport)), asio::detached);
    } else if (over_limit.size() < kOverLimitMax) {
      over_limit.push_back(transport);
      asio::co_spawn(io, wait_for_room(std::move(transport)), asio::detached);
    }
  }
}

// A full house: of the connections that do nothing, the one that came first
// makes room for who wants something. False: all are busy.
bool Server::State::make_room() {
  if (connections.size() < service.options().connections_max) return true;
  const auto idle =
      std::find_if(connections.begin(), connections.end(),
                   [](const auto& transport) { return transport->idle(); });
  if (idle == connections.end()) return false;
  (*idle)->close();
  connections.erase(idle);
  return true;
}

awaitable<void> Server::State::serve_one(std::shared_ptr<Transport> transport) {
  service.metrics().connection_opened();
  co_await serve_connection(transport, service);
  service.metrics().connection_closed();
  connections.remove(transport);
  if (draining && connections.empty()) grace_timer.cancel();
}

awaitable<void> Server::State::wait_for_room(
    std::shared_ptr<Transport> transport) {
  asio::steady_timer pause(io);
  pause.expires_after(kRoomWait);
  co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  if (!draining && make_room()) {
    over_limit.remove(transport);
    connections.push_back(transport);
    co_await serve_one(std::move(transport));
    co_return;
  }
  co_await turn_away(transport, service);
  over_limit.remove(transport);
}

void Server::State::drain(std::chrono::milliseconds grace) {
  draining = true;
  error_code ignored;
  acceptor.close(ignored);
  for (const auto& transport : over_limit) transport->close();
  for (const auto& transport : connections) {
    if (transport->idle())
      transport->close();
    else
      transport->no_keep_alive();
  }
  if (connections.empty()) return;
  grace_timer.expires_after(grace);
  grace_timer.async_wait([this](error_code error) {
    if (error) return;
    for (const auto& transport : connections) transport->close();
  });
}

void Server::stop(std::chrono::milliseconds grace) {
  auto& s = *state_;
  if (!s.thread.joinable()) return;
  asio::post(s.io, [&s, grace] { s.drain(grace); });
  // With the acceptor and every connection closed the context runs dry.
  s.thread.join();
  s.service.pool().join();
}

}  // namespace reprise
