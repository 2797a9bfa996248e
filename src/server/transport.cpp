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
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <utility>

#include "server/deadline.h"
#include "server/read_refusal.h"
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

std::string address_of(const asio::ip::tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "-" : endpoint.address().to_string();
}

template <class Fields>
HttpHeaders headers_of(const Fields& fields) {
  HttpHeaders out;
  for (const auto& field : fields)
    out.emplace_back(field.name_string(), field.value());
  return out;
}

}  // namespace

struct Transport::Impl : std::enable_shared_from_this<Transport::Impl> {
  Impl(asio::ip::tcp::socket from, const ServerOptions& with,
       BodyBudget& bodies)
      : socket(std::move(from)),
        client(address_of(socket)),
        options(with),
        budget(bodies),
        buffer(with.header_bytes_max + (std::size_t{1} << 20)),
        deadline(socket.get_executor()),
        share(bodies) {}

  void begin_request();
  asio::awaitable<error_code> read_header();
  HttpRequest head_so_far() const;
  asio::awaitable<error_code> read_pieces();
  std::optional<HttpReply> refuse(error_code error, RequestPart part);
  template <class Message>
  void fill_header(Message& message);
  asio::awaitable<bool> write(std::string bytes);
  void count_sent(std::size_t bytes);
  void arm_watch();
  void close();

  asio::ip::tcp::socket socket;
  const std::string client;
  const ServerOptions& options;
  const BodyBudget& budget;
  boost::beast::flat_buffer buffer;
  Deadline deadline;

  // Of the last request.
  std::optional<RequestParser> parser;
  BodyBudget::Share share;
  bool over_budget = false;
  std::chrono::steady_clock::time_point started = {};
  HttpHeaders reply_headers;
  Sent sent;
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

Transport::Transport(asio::ip::tcp::socket socket, const ServerOptions& options,
                     BodyBudget& budget)
    : impl_(std::make_shared<Impl>(std::move(socket), options, budget)) {
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

void Transport::Impl::begin_request() {
  parser.emplace();
  parser->header_limit(static_cast<std::uint32_t>(options.header_bytes_max));
  parser->body_limit(options.body_bytes_max);
  share.release();
  over_budget = false;
  streaming = false;
  head = false;
  reply_headers.clear();
  sent = {};
  started = std::chrono::steady_clock::now();
}

// The first byte may take as long as a client likes to keep an idle
// connection; from then on the header is on a clock.
asio::awaitable<error_code> Transport::Impl::read_header() {
  if (buffer.size() == 0) {
    idle = true;
    deadline.start(options.idle_timeout, [this] { socket.cancel(); });
    const auto [error, n] =
        co_await socket.async_read_some(buffer.prepare(4096), kAwait);
    deadline.stop();
    idle = false;
    if (error) co_return http::make_error_code(http::error::end_of_stream);
    buffer.commit(n);
    started = std::chrono::steady_clock::now();
  }
  deadline.start(options.header_timeout, [this] { socket.cancel(); });
  const auto [error, n] =
      co_await http::async_read_header(socket, buffer, *parser, kAwait);
  deadline.stop();
  co_return error;
}

// A header that is broken or too long may still have said who asks.
HttpRequest Transport::Impl::head_so_far() const {
  const auto& message = parser->get();
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.path = decode_path(
      std::string_view(message.target().data(), message.target().size()));
  request.headers = headers_of(message);
  return request;
}

std::optional<HttpReply> Transport::Impl::refuse(error_code error,
                                                 RequestPart part) {
  keep_alive = false;
  if (over_budget) return no_room_for_body(budget);
  if (error != http::error::end_of_stream && deadline.expired())
    return too_slow(part, options);
  return refusal_of(error, *parser, options);
}

asio::awaitable<Transport::Incoming> Transport::read_head() {
  auto& t = *impl_;
  t.begin_request();
  const auto error = co_await t.read_header();
  Incoming incoming;
  if (error) {
    incoming.refusal = t.refuse(error, RequestPart::header);
    if (incoming.refusal) incoming.head = t.head_so_far();
    co_return incoming;
  }
  incoming.head = t.head_so_far();
  t.version = t.parser->get().version();
  t.head = incoming.head->method == "HEAD";
  t.keep_alive = t.parser->get().keep_alive() && !t.last_request;
  co_return incoming;
}

// Piece by piece, so that what is held is known while it grows.
asio::awaitable<error_code> Transport::Impl::read_pieces() {
  deadline.start(options.body_timeout, [this] { socket.cancel(); });
  error_code error;
  while (!error && !parser->is_done()) {
    const auto [failed, n] =
        co_await http::async_read_some(socket, buffer, *parser, kAwait);
    error = failed;
    if (!error && !share.grow_to(parser->get().body().size())) {
      over_budget = true;
      error = http::make_error_code(http::error::body_limit);
    }
  }
  deadline.stop();
  co_return error;
}

asio::awaitable<Transport::Body> Transport::read_body() {
  auto& t = *impl_;
  if (auto refusal = refuse_coding(*t.parser))
    co_return Body{{}, std::move(refusal)};
  error_code error;
  if (!t.parser->is_done()) {
    // What says that it cannot fit need not be sent.
    if (!t.share.fits(t.parser->content_length().value_or(0)))
      co_return Body{{}, no_room_for_body(t.budget)};
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (boost::beast::iequals(t.parser->get()[http::field::expect],
                              "100-continue") &&
        !co_await t.write(std::move(go_on)))
      co_return Body{};
    t.sent = {};  // that was not yet the reply
    error = co_await t.read_pieces();
  }
  if (error) co_return Body{{}, t.refuse(error, RequestPart::body)};
  co_return Body{std::move(t.parser->get().body()), {}};
}

void Transport::release_body() {
  impl_->share.release();
}

// --- Writing ---------------------------------------------------------------

void Transport::set_reply_headers(HttpHeaders headers) {
  impl_->reply_headers = std::move(headers);
}

void Transport::Impl::count_sent(std::size_t bytes) {
  if (bytes == 0) return;
  sent.bytes += bytes;
  if (!sent.first) sent.first = std::chrono::steady_clock::now();
}

template <class Message>
void Transport::Impl::fill_header(Message& message) {
  // What is left of a body that nobody read would be taken for a request.
  if (parser && !parser->is_done()) keep_alive = false;
  message.set(http::field::server, "reprise");
  for (const auto& [name, value] : reply_headers) message.set(name, value);
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
    t.count_sent(n);
  } else {
    const auto [failed, n] =
        co_await http::async_write(t.socket, serializer, kAwait);
    error = failed;
    t.count_sent(n);
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
  count_sent(n);
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
  t.count_sent(n);
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

const std::string& Transport::client() const {
  return impl_->client;
}
const Transport::Sent& Transport::sent() const {
  return impl_->sent;
}
std::chrono::steady_clock::time_point Transport::started() const {
  return impl_->started;
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
