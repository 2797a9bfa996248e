// One client's socket: requests in, replies and event streams out, with all
// limits and timeouts. Lives on the I/O thread; one coroutine uses it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/body_budget.h"
#include "server/http.h"
#include "server/server.h"

namespace reprise {

class Transport {
 public:
  // `options` and `budget` outlive the transport.
  Transport(boost::asio::ip::tcp::socket socket, const ServerOptions& options,
            BodyBudget& budget);
  ~Transport();

  const std::string& client() const;  // its address

  // What came in: the head of a request, as far as it could be read; with it,
  // an error reply that must be sent before the connection is closed. Neither:
  // the client has left, or was silent.
  struct Incoming {
    std::optional<HttpRequest> head;
    std::optional<HttpReply> refusal;
  };
  boost::asio::awaitable<Incoming> read_head();

  // The body of the request whose head was read; once. Both empty: the client
  // has left. A request that is answered without it is the connection's last.
  struct Body {
    std::optional<std::string> bytes;
    std::optional<HttpReply> refusal;
  };
  boost::asio::awaitable<Body> read_body();

  // The body's memory is free again: it no longer counts to the budget.
  void release_body();

  // What every reply to this request carries.
  void set_reply_headers(HttpHeaders headers);

  // Of the reply to this request, so far.
  struct Sent {
    std::size_t bytes = 0;  // head and body
    std::optional<std::chrono::steady_clock::time_point> first;
  };
  const Sent& sent() const;
  // When the first byte of this request came.
  std::chrono::steady_clock::time_point started() const;

  // False: the client is gone, or did not take it in time. HEAD requests get
  // the header alone.
  boost::asio::awaitable<bool> send(HttpReply reply);

  // Server-sent events: begin once, write lines ("data: ...\n\n") any number
  // of times, end once. Without end() the client sees a broken stream.
  boost::asio::awaitable<bool> begin_events();
  boost::asio::awaitable<bool> write_events(std::string lines);
  boost::asio::awaitable<bool> end_events();
  bool streaming() const;  // begin_events was called for this request

  // Between read_body() and the end of the reply: calls on_gone at most once
  // when the client closes its side. unwatch() must be awaited before the next
  // read_head().
  void watch(std::function<void()> on_gone);
  boost::asio::awaitable<void> unwatch();

  // After the last reply: lets the client finish what it sends (discarded, for
  // a short while), so that it gets to read the reply, then closes.
  boost::asio::awaitable<void> linger();

  bool keep_alive() const;  // the last request and reply allow a next one
  void no_keep_alive();     // the reply under way, or the next, is the last
  bool idle() const;        // no request is being read or answered
  void close();             // ends whatever goes on

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace reprise
