#include "server/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "server/access_log.h"
#include "server/auth.h"
#include "server/cors.h"
#include "server/generation.h"
#include "server/routes.h"

namespace reprise {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

// Who asks, and from which page, is settled before a byte of the body is read.
std::optional<HttpReply> refuse(const HttpRequest& head,
                                const Service& service) {
  const auto& options = service.options();
  if (options.api_keys.empty()) {
    if (service.on_loopback())
      if (auto no = refuse_host(head, options.host, options.cors_origins))
        return no;
    if (auto no = refuse_origin(head, options.cors_origins)) return no;
  }
  return refuse_without_key(head, options.api_keys);
}

// One request, from its head to the end of its reply.
class Exchange {
 public:
  Exchange(Service& service, std::shared_ptr<Transport> transport)
      : service_(service), transport_(std::move(transport)) {}

  // False: the connection is over.
  awaitable<bool> run() {
    auto incoming = co_await transport_->read_head();
    if (!incoming.head && !incoming.refusal) {
      transport_->close();
      co_return false;
    }
    HttpRequest request;
    if (incoming.head) request = std::move(*incoming.head);
    begin(request);
    if (!incoming.refusal) incoming.refusal = refuse(request, service_);
    if (!incoming.refusal) {
      auto body = co_await transport_->read_body();
      if (body.bytes)
        request.body = std::move(*body.bytes);
      else if (!body.refusal)
        co_return left();
      incoming.refusal = std::move(body.refusal);
    }
    if (incoming.refusal)
      co_await send(std::move(*incoming.refusal));
    else
      co_await answer(std::move(request));
    end();
    co_return transport_->keep_alive();
  }

 private:
  // In the middle of its body.
  bool left() {
    record_.status = 499;
    service_.metrics().count_disconnect();
    end();
    transport_->close();
    return false;
  }

  void begin(const HttpRequest& head) {
    record_ = {.id = request_id(head),
               .client = transport_->client(),
               .method = head.method,
               .path = head.path,
               .started = transport_->started()};
    auto headers = cors_headers(head, service_.options().cors_origins);
    headers.emplace_back("X-Request-Id", record_.id);
    transport_->set_reply_headers(std::move(headers));
  }

  void end() {
    service_.metrics().count_request(endpoint_, record_.status);
    if (!service_.options().access_log) return;
    record_.bytes_sent = transport_->sent().bytes;
    record_.first_byte = transport_->sent().first;
    spdlog::info("{}", access_line(record_, std::chrono::steady_clock::now()));
  }

  awaitable<void> send(HttpReply reply) {
    record_.status = reply.status;
    co_await transport_->send(std::move(reply));
  }

  awaitable<void> answer(HttpRequest request) {
    std::string failure;
    try {
      co_await follow(std::move(request));
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "unknown reason";
    }
    co_await transport_->unwatch();
    if (!failure.empty()) co_await apologize(failure);
  }

  awaitable<void> follow(HttpRequest request) {
    auto route = find_route(request, service_);
    endpoint_ = route.name;
    if (auto* reply = std::get_if<HttpReply>(&route.target)) {
      co_await send(std::move(*reply));
      co_return;
    }
    record_.status = co_await generate(std::get<Endpoint>(route.target),
                                       std::move(request.body), service_,
                                       transport_, record_);
  }

  // A bug of ours met this request. Its client hears so, the others go on.
  awaitable<void> apologize(std::string what) {
    spdlog::error("[server/connection] request {} failed: {}", record_.id,
                  what);
    const Error error{
        ErrorKind::internal,
        fmt::format("The request failed inside the server: {}", what)};
    transport_->no_keep_alive();
    if (transport_->streaming()) {
      record_.status = 500;
      co_await transport_->write_events(error_event(500, error));
      co_await transport_->end_events();
    } else {
      co_await send(error_reply(error));
    }
  }

  Service& service_;
  const std::shared_ptr<Transport> transport_;
  RequestRecord record_;
  std::string endpoint_ = "other";
};

}  // namespace

awaitable<void> serve_connection(std::shared_ptr<Transport> transport,
                                 Service& service) {
  try {
    bool more = true;
    while (more) {
      Exchange exchange(service, transport);
      more = co_await exchange.run();
    }
    co_await transport->linger();
  } catch (const std::exception& error) {
    spdlog::error("[server/connection] closed: {}", error.what());
  }
  transport->close();
}

awaitable<void> turn_away(std::shared_ptr<Transport> transport,
                          Service& service) {
  const auto id = request_id({});
  transport->set_reply_headers({{"X-Request-Id", id}});
  transport->no_keep_alive();
  auto reply = error_reply(
      Error{ErrorKind::unavailable,
            fmt::format("All {} connections of this server are busy. Try again "
                        "in a moment.",
                        service.options().connections_max)});
  service.metrics().count_request("other", reply.status);
  if (service.options().access_log)
    spdlog::info("request id={} client={} status={}: too many connections", id,
                 transport->client(), reply.status);
  try {
    co_await transport->send(std::move(reply));
    co_await transport->linger();
  } catch (const std::exception& error) {
    spdlog::error("[server/connection] closed: {}", error.what());
  }
  transport->close();
}

}  // namespace reprise
