// For the tests of this folder: a client that sends bytes as they are and
// shows what comes back, blocking, with a time limit on every read.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <cctype>
#include <cstdint>
#include <string>

#include "api/json.h"

namespace reprise {

struct RawReply {
  int status = 0;  // 0: the server closed without a word
  std::string head;
  std::string body;

  Json json() const { return Json::parse(body, nullptr, false); }
  std::string error(const char* key) const {
    const auto value = json();
    if (!value.is_object() || !value.contains("error")) return "no error";
    const auto field = value["error"].value(key, Json());
    return field.is_string() ? field.get<std::string>() : field.dump();
  }
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : socket_(io_) {
    const boost::asio::ip::tcp::endpoint to(
        boost::asio::ip::address_v4::loopback(), port);
    socket_.open(to.protocol());
    if (receive_buffer > 0)
      socket_.set_option(
          boost::asio::socket_base::receive_buffer_size(receive_buffer));
    socket_.connect(to);
    timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit,
                 sizeof limit);
  }

  // False: the server no longer takes it.
  bool send(const std::string& bytes) {
    boost::system::error_code error;
    boost::asio::write(socket_, boost::asio::buffer(bytes), error);
    return !error;
  }

  void post(const std::string& path, const std::string& body,
            const std::string& headers = "") {
    send("POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }

  void get(const std::string& path, const std::string& method = "GET") {
    send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }

  // Everything up to and with `mark`, taken out of the stream. Fails the test
  // when the server closes or is silent before.
  std::string until(const std::string& mark) {
    while (data_.find(mark) == std::string::npos)
      if (!more()) {
        ADD_FAILURE() << "no '" << mark << "' in: " << data_.substr(0, 2000);
        return {};
      }
    return take(data_.find(mark) + mark.size());
  }

  // One reply with a Content-Length, or a chunked one with its chunks joined.
  RawReply reply(bool head_only = false) {
    RawReply out;
    while (data_.find("\r\n\r\n") == std::string::npos)
      if (!more()) return out;
    out.head = take(data_.find("\r\n\r\n") + 4);
    out.status = std::stoi(out.head.substr(9, 3));
    if (head_only || out.status == 204) return out;
    if (const auto length = field(out.head, "Content-Length"); !length.empty())
      out.body = exactly(std::stoul(length));
    else if (field(out.head, "Transfer-Encoding") == "chunked")
      out.body = chunks();
    return out;
  }

  std::string chunks() {
    std::string body;
    while (true) {
      const auto size = std::stoul(until("\r\n"), nullptr, 16);
      body += exactly(size);
      exactly(2);
      if (size == 0) return body;
    }
  }

  // The server has closed (after bytes that nobody asked for, perhaps).
  bool closed() {
    while (more()) data_.clear();
    return !timed_out_;
  }

  void close() { socket_.close(); }
  void reset() {
    socket_.set_option(boost::asio::socket_base::linger(true, 0));
    socket_.close();
  }

  static std::string field(const std::string& head, const std::string& name) {
    const auto at = head.find(name + ": ");
    if (at == std::string::npos) return {};
    const auto from = at + name.size() + 2;
    return head.substr(from, head.find("\r\n", from) - from);
  }

 private:
  bool more() {
    char bytes[16384];
    const auto n = ::recv(socket_.native_handle(), bytes, sizeof bytes, 0);
    timed_out_ = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (n <= 0) return false;
    data_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  std::string exactly(std::size_t size) {
    while (data_.size() < size)
      if (!more()) {
        ADD_FAILURE() << "closed with " << data_.size() << " of " << size;
        return take(data_.size());
      }
    return take(size);
  }

  std::string take(std::size_t size) {
    auto out = data_.substr(0, size);
    data_.erase(0, size);
    return out;
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  std::string data_;
  bool timed_out_ = false;
};

}  // namespace reprise
