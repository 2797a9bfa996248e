#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "api/errors.h"
#include "server/mailbox.h"
#include "server/prepare.h"
#include "server/reply_writer.h"

namespace reprise {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kClientGone = 499;  // never sent; for the books

// One request at the engine. Whoever drops the last reference before the
// engine has finished cancels it: no way out of the coroutine leaves it
// running, and none has to remember.
class Job {
 public:
  Job(Endpoint endpoint, std::string body,
      std::shared_ptr<const LoadedModel> model,
      std::shared_ptr<Mailbox> mailbox)
      : endpoint_(endpoint),
        body_(std::move(body)),
        model_(std::move(model)),
        mailbox_(std::move(mailbox)) {}
  ~Job() {
    if (!finished) cancel();
  }

  // On the work pool: a long prompt takes its time.
  void run() {
    auto prepared = prepare(endpoint_, body_, model_->services);
    body_ = {};
    if (!prepared) {
      error = prepared.error();
      return;
    }
    request = std::move(*prepared);
    const auto id = model_->backend.submit(
        request.request,
        [mailbox = mailbox_](const Event& event) { mailbox->push(event); });
    if (id)
      id_ = *id;
    else
      error = id.error();
  }

  void cancel() {
    if (id_) model_->backend.cancel(*id_);
  }

  PreparedRequest request;     // after run()
  std::optional<Error> error;  // why there is none
  bool finished = false;       // the engine said so

 private:
  const Endpoint endpoint_;
  std::string body_;
  const std::shared_ptr<const LoadedModel> model_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::optional<RequestId> id_;
};

// Why a finish is no reply, or nothing.
std::optional<Error> failure_of(const Finish& finish, bool stopped) {
  if (stopped) return std::nullopt;
  if (finish.reason == FinishReason::error)
    return Error{ErrorKind::internal, finish.error.empty()
                                          ? "The request could not be computed."
                                          : finish.error};
  if (finish.reason == FinishReason::cancelled)
    return Error{ErrorKind::unavailable,
                 "The request was cancelled: the server is stopping."};
  return std::nullopt;
}

// The state of one reply between events.
class Reply {
 public:
  Reply(Service& service, std::shared_ptr<Transport> transport, Job& job,
        MailboxReader& reader, ReplyWriter& writer, Clock::time_point started,
        RequestRecord& record)
      : record_(record),
        service_(service),
        transport_(std::move(transport)),
        job_(job),
        reader_(reader),
        writer_(writer),
        last_(started) {}

  awaitable<int> answer() {
    while (true) {
      const auto events = co_await reader_.wait();
      if (events.empty()) co_return gone();
      std::string out;
      for (const auto& timed : events) take(timed, out);
      const bool more = co_await give(std::move(out));
      if (!more) co_return status_;
    }
  }

 private:
  void take(const TimedEvent& timed, std::string& out) {
    if (const auto* finish = std::get_if<Finish>(&timed.event.what)) {
      job_.finished = true;
      finish_ = *finish;
      service_.metrics().observe_queue(finish->timings.queue_ms / 1000);
      // The engine's own lines know its number alone.
      if (finish->reason == FinishReason::error)
        spdlog::error(
            "request id={} failed; to the engine it is request {}: {}",
            record_.id, timed.event.id, finish->error);
      record_.cached_tokens = finish->cache.memory_tokens +
                              finish->cache.disk_tokens +
                              finish->cache.remote_tokens;
      return;
    }
    if (writer_.stopped() ||
        std::holds_alternative<PromptLogprobs>(timed.event.what))
      return;
    record_.completion_tokens = record_.completion_tokens.value_or(0) + 1;
    const std::chrono::duration<double> since = timed.when - last_;
    last_ = timed.when;
    if (std::exchange(first_, false))
      service_.metrics().observe_first_token(since.count());
    else
      service_.metrics().observe_next_token(since.count());
    out += writer_.push(std::get<SampledToken>(timed.event.what).id);
    // The engine knows nothing of stop strings: it learns here that this
    // reply has ended, and its Finish brings the counts.
    if (writer_.stopped()) job_.cancel();
  }

  // False: nothing more is to come.
  awaitable<bool> give(std::string out) {
    std::optional<Error> failure;
    if (finish_) failure = failure_of(*finish_, writer_.stopped());
    if (failure && !transport_->streaming()) {
      status_ = http_status(*failure);
      co_await send(error_reply(*failure));
      co_return false;
    }
    if (finish_ && !failure) out += writer_.finish(*finish_);
    if (failure) out += error_event(http_status(*failure), *failure);
    if (!job_.request.parameters.stream) {
      if (finish_) {
        HttpReply reply{.body = std::move(out)};
        co_await send(std::move(reply));
      }
      co_return !finish_;
    }
    if (failure) transport_->no_keep_alive();
    co_return co_await stream(std::move(out));
  }

  awaitable<bool> stream(std::string out) {
    bool there = true;
    if (!transport_->streaming()) there = co_await transport_->begin_events();
    if (there && !out.empty())
      there = co_await transport_->write_events(std::move(out));
    if (there && finish_) there = co_await transport_->end_events();
    if (!there) gone();
    co_return there && !finish_;
  }

  awaitable<void> send(HttpReply reply) {
    const bool sent = co_await transport_->send(std::move(reply));
    if (!sent) service_.metrics().count_disconnect();
  }

  int gone() {
    service_.metrics().count_disconnect();
    return transport_->streaming() ? status_ : kClientGone;
  }

  RequestRecord& record_;
  Service& service_;
  const std::shared_ptr<Transport> transport_;
  Job& job_;
  MailboxReader& reader_;
  ReplyWriter& writer_;
  Clock::time_point last_;  // the last token, or the request's arrival
  bool first_ = true;
  std::optional<Finish> finish_;
  int status_ = 200;
};

awaitable<void> run_on_pool(Service& service, std::shared_ptr<Job> job) {
  const auto work = [job]() -> awaitable<void> {
    job->run();
    co_return;
  };
  co_await asio::co_spawn(service.pool(), work, asio::use_awaitable);
}

}  // namespace

std::string error_event(int status, const Error& error) {
  return "data: " + dump(error_body(status, error)) + "\n\n";
}

awaitable<int> generate(Endpoint endpoint, std::string body, Service& service,
                        std::shared_ptr<Transport> transport,
                        RequestRecord& record) {
  const auto started = Clock::now();
  const auto why_not = unavailable_reason(service.engine_status());
  if (why_not) {
    co_await transport->send(error_reply(*why_not));
    co_return 503;
  }
  const auto model = service.model();
  const auto io = co_await asio::this_coro::executor;
  const auto reader =
      std::make_shared<MailboxReader>(io, [weak = std::weak_ptr(transport)] {
        if (const auto alive = weak.lock()) alive->close();
      });
  transport->watch([weak = std::weak_ptr(reader)] {
    if (const auto alive = weak.lock()) alive->interrupt();
  });
  const auto job = std::make_shared<Job>(endpoint, std::move(body), model,
                                         reader->mailbox());
  co_await run_on_pool(service, job);
  transport->release_body();
  if (reader->interrupted()) {
    service.metrics().count_disconnect();
    co_return kClientGone;
  }
  if (job->error) {
    auto reply = error_reply(*job->error);
    const int status = reply.status;
    co_await transport->send(std::move(reply));
    co_return status;
  }
  record.prompt_tokens = static_cast<int>(job->request.request.prompt.size());
  ReplyWriter writer(endpoint, job->request, model->services);
  Reply reply(service, transport, *job, *reader, writer, started, record);
  co_return co_await reply.answer();
}

}  // namespace reprise
