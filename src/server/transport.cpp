#include "server/transport.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <utility>

#include "server/deadline.h"
#include "server/target.h"

namespace reprise {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// Bytes of a next request that are kept while a reply is under way.
constexpr std::size_t kPipelinedBytesMax = std::size_t{64} << 10;
constexpr std::chrono::seconds kLingerQuiet{2};
constexpr std::chrono::seconds kLingerTotal{20};

using Parser = http::request_parser<http::string_body>;

}  // namespace

struct Transport::Impl : std::enable_shared_from_this<Transport::Impl> {
  Impl(asio::ip::tcp::socket from, const ServerOptions& with)
      : socket(std::move(from)),
        options(with),
        buffer(with.header_bytes_max + (std::size_t{1} << 20)),
        deadline(socket.get_executor()) {}

  asio::awaitable<error_code> read_header(Parser& parser);
  asio::awaitable<error_code> read_body(Parser& parser);
  Incoming refuse(error_code error, const Parser& parser, bool in_body);
  template <class Message>
  void fill_header(Message& message) const;
  asio::awaitable<bool> write(std::string bytes);
  void arm_watch();
  void close();

  asio::ip::tcp::socket socket;
  const ServerOptions& options;
  boost::beast::flat_buffer buffer;
  Deadline deadline;

  // Of the last request.
  unsigned version = 11;
  bool head = false;
  bool keep_alive = true;
  bool last_request = false;  // no next one, whatever the client wants
  bool idle = false;
  bool streaming = false;

  // Watching for the client's end.
  asio::cancellation_signal stop_watch;
  std::function<void()> on_gone;
  bool watching = false;  // a read is pending
  bool wanted = false;    // and shall be started again
};

Transport::Transport(asio::ip::tcp::socket socket, const ServerOptions& options)
    : impl_(std::make_shared<Impl>(std::move(socket), options)) {
  error_code ignored;
  impl_->socket.set_option(asio::ip::tcp::no_delay(true), ignored);
}

Transport::~Transport() {
  impl_->wanted = false;
  impl_->on_gone = nullptr;
  impl_->close();
}

void Transport::Impl::close() {
  error_code ignored;
  socket.close(ignored);
  keep_alive = false;
}

// --- Reading ---------------------------------------------------------------

// The first byte may take as long as a client likes to keep an idle
// connection; from then on the header is on a clock.
asio::awaitable<error_code> Transport::Impl::read_header(Parser& parser) {
  if (buffer.size() == 0) {
    idle = true;
    deadline.start(options.idle_timeout, [this] { socket.cancel(); });
    const auto [error, n] =
        co_await socket.async_read_some(buffer.prepare(4096), kAwait);
    deadline.stop();
    idle = false;
    if (error) co_return http::make_error_code(http::error::end_of_stream);
    buffer.commit(n);
  }
  deadline.start(options.header_timeout, [this] { socket.cancel(); });
  const auto [error, n] =
      co_await http::async_read_header(socket, buffer, parser, kAwait);
  deadline.stop();
  co_return error;
}

asio::awaitable<error_code> Transport::Impl::read_body(Parser& parser) {
  if (boost::beast::iequals(parser.get()[http::field::expect],
                            "100-continue")) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write(std::move(go_on)))
      co_return http::make_error_code(http::error::end_of_stream);
  }
  deadline.start(options.body_timeout, [this] { socket.cancel(); });
  const auto [error, n] =
      co_await http::async_read(socket, buffer, parser, kAwait);
  deadline.stop();
  co_return error;
}

Transport::Incoming Transport::Impl::refuse(error_code error,
                                            const Parser& parser,
                                            bool in_body) {
  keep_alive = false;
  if (error == http::error::end_of_stream) return {};
  const auto refusal = [](int status, ErrorKind kind, std::string message) {
    return Incoming{{}, error_reply(status, Error{kind, std::move(message)})};
  };
  if (deadline.expired())
    return refusal(
        408, ErrorKind::invalid,
        fmt::format(
            "The request's {} did not arrive within {} ms.",
            in_body ? "body" : "header",
            (in_body ? options.body_timeout : options.header_timeout).count()));
  if (error == http::error::header_limit ||
      error == http::error::buffer_overflow)
    return refusal(
        431, ErrorKind::too_large,
        fmt::format(
            "The request's header is larger than the limit of {} bytes.",
            options.header_bytes_max));
  if (error == http::error::body_limit) {
    // The parser's own content_length() may not be asked: its header counts as
    // unfinished when this limit stops it.
    const std::string length(parser.get()[http::field::content_length]);
    return refusal(
        413, ErrorKind::too_large,
        fmt::format(
            "The request's body{} is larger than the limit of {} bytes.",
            length.empty() ? "" : fmt::format(" of {} bytes", length),
            options.body_bytes_max));
  }
  // Reset by the client, or closed by us: nobody is there to read a reply.
  static const auto& kHttpErrors =
      http::make_error_code(http::error::bad_method).category();
  if (error.category() != kHttpErrors) return {};
  return refusal(
      400, ErrorKind::invalid,
      fmt::format("This is not an HTTP request that can be read: {}.",
                  error.message()));
}

asio::awaitable<Transport::Incoming> Transport::read() {
  auto& t = *impl_;
  t.streaming = false;
  t.head = false;
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(t.options.header_bytes_max));
  parser.body_limit(t.options.body_bytes_max);
  bool in_body = false;
  auto error = co_await t.read_header(parser);
  if (!error) {
    in_body = true;
    t.version = parser.get().version();
    t.keep_alive = parser.get().keep_alive() && !t.last_request;
    if (!parser.is_done()) error = co_await t.read_body(parser);
  }
  if (error) co_return t.refuse(error, parser, in_body);
  auto message = parser.release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = decode_path(
      std::string_view(message.target().data(), message.target().size()));
  request.body = std::move(message.body());
  t.head = request.method == "HEAD";
  co_return Incoming{std::move(request), {}};
}

// --- Writing ---------------------------------------------------------------

template <class Message>
void Transport::Impl::fill_header(Message& message) const {
  message.set(http::field::server, "reprise");
  message.set(http::field::access_control_allow_origin, "*");
  message.keep_alive(keep_alive);
}

asio::awaitable<bool> Transport::send(HttpReply reply) {
  auto& t = *impl_;
  http::response<http::string_body> message{
      static_cast<http::status>(reply.status), t.version};
  t.fill_header(message);
  for (const auto& [name, value] : reply.headers) message.set(name, value);
  if (!reply.body.empty())
    message.set(http::field::content_type, reply.content_type);
  message.body() = std::move(reply.body);
  message.prepare_payload();
  http::response_serializer<http::string_body> serializer{message};
  t.deadline.start(t.options.write_timeout, [&t] { t.close(); });
  error_code error;
  if (t.head) {
    const auto [failed, n] =
        co_await http::async_write_header(t.socket, serializer, kAwait);
    error = failed;
  } else {
    const auto [failed, n] =
        co_await http::async_write(t.socket, serializer, kAwait);
    error = failed;
  }
  t.deadline.stop();
  if (error) t.keep_alive = false;
  co_return !error;
}

asio::awaitable<bool> Transport::Impl::write(std::string bytes) {
  deadline.start(options.write_timeout, [this] { close(); });
  const auto [error, n] =
      co_await asio::async_write(socket, asio::buffer(bytes), kAwait);
  deadline.stop();
  if (error) keep_alive = false;
  co_return !error;
}

asio::awaitable<bool> Transport::begin_events() {
  auto& t = *impl_;
  t.streaming = true;
  http::response<http::empty_body> message{http::status::ok, t.version};
  // HTTP/1.0 knows no chunks: there the end of the connection ends the reply.
  if (t.version < 11) t.keep_alive = false;
  t.fill_header(message);
  message.set(http::field::content_type, "text/event-stream; charset=utf-8");
  message.set(http::field::cache_control, "no-cache");
  message.set("X-Accel-Buffering", "no");
  if (t.version >= 11) message.chunked(true);
  http::response_serializer<http::empty_body> serializer{message};
  t.deadline.start(t.options.write_timeout, [&t] { t.close(); });
  const auto [error, n] =
      co_await http::async_write_header(t.socket, serializer, kAwait);
  t.deadline.stop();
  if (error) t.keep_alive = false;
  co_return !error;
}

asio::awaitable<bool> Transport::write_events(std::string lines) {
  if (impl_->version >= 11)
    lines = fmt::format("{:x}\r\n{}\r\n", lines.size(), lines);
  co_return co_await impl_->write(std::move(lines));
}

asio::awaitable<bool> Transport::end_events() {
  if (impl_->version < 11) co_return true;
  std::string last_chunk = "0\r\n\r\n";
  co_return co_await impl_->write(std::move(last_chunk));
}

// --- Watching and closing --------------------------------------------------

// A read stays pending while the reply is made: the only way to hear at once
// that the other side has closed. What it brings of a next request is kept.
void Transport::Impl::arm_watch() {
  watching = true;
  socket.async_read_some(
      buffer.prepare(4096),
      asio::bind_cancellation_slot(
          stop_watch.slot(),
          [self = shared_from_this()](error_code error, std::size_t n) {
            self->watching = false;
            if (!error) {
              self->buffer.commit(n);
              if (self->wanted && self->buffer.size() < kPipelinedBytesMax)
                self->arm_watch();
              return;
            }
            if (!self->wanted) return;
            self->keep_alive = false;
            if (self->on_gone) std::exchange(self->on_gone, nullptr)();
          }));
}

void Transport::watch(std::function<void()> on_gone) {
  impl_->on_gone = std::move(on_gone);
  impl_->wanted = true;
  impl_->arm_watch();
}

asio::awaitable<void> Transport::unwatch() {
  auto& t = *impl_;
  t.wanted = false;
  t.on_gone = nullptr;
  t.stop_watch.emit(asio::cancellation_type::total);
  // The cancelled read's handler is already queued: let it run.
  while (t.watching) co_await asio::post(asio::use_awaitable);
}

asio::awaitable<void> Transport::linger() {
  auto& t = *impl_;
  t.idle = true;
  error_code error;
  t.socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  const auto until = std::chrono::steady_clock::now() + kLingerTotal;
  std::string sink(std::size_t{64} << 10, '\0');
  while (!error && std::chrono::steady_clock::now() < until) {
    t.deadline.start(kLingerQuiet, [&t] { t.socket.cancel(); });
    const auto [failed, n] =
        co_await t.socket.async_read_some(asio::buffer(sink), kAwait);
    t.deadline.stop();
    error = failed;
  }
  t.close();
}

bool Transport::streaming() const {
  return impl_->streaming;
}
bool Transport::keep_alive() const {
  return impl_->keep_alive;
}
void Transport::no_keep_alive() {
  impl_->last_request = true;
  impl_->keep_alive = false;
}
bool Transport::idle() const {
  return impl_->idle;
}
void Transport::close() {
  impl_->close();
}

}  // namespace reprise
