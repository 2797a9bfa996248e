#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "api/errors.h"
#include "server/mailbox.h"
#include "server/prepare.h"
#include "server/reply_writer.h"
#include "server/text_endpoints.h"

namespace reprise {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kClientGone = 499;  // never sent; for the books

// The requests at the engine, one a choice. Whoever drops the last reference
// before the engine has finished them cancels them: no way out of the coroutine
// leaves one running, and none has to remember.
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
    for (const auto& [id, choice] : running_) model_->backend.cancel(id);
  }

  // On the work pool: a long prompt takes its time.
  void run() {
    auto prepared = prepare(endpoint_, body_, model_->services);
    body_ = {};
    if (!prepared) {
      error = prepared.error();
      return;
    }
    reply = std::move(*prepared);
    for (int choice = 0; choice < reply.choices(); ++choice) {
      const auto id = model_->backend.submit(
          request_of(reply, choice),
          [mailbox = mailbox_](const Event& event) { mailbox->push(event); });
      if (!id) {
        error = id.error();
        return;
      }
      running_[*id] = choice;
    }
  }

  // Of an event; nothing for one of a choice that has finished.
  std::optional<int> choice_of(RequestId id) const {
    const auto found = running_.find(id);
    if (found == running_.end()) return std::nullopt;
    return found->second;
  }

  void cancel(RequestId id) { model_->backend.cancel(id); }
  void finished(RequestId id) { running_.erase(id); }

  PreparedReply reply;         // after run()
  std::optional<Error> error;  // why there is none

 private:
  const Endpoint endpoint_;
  std::string body_;
  const std::shared_ptr<const LoadedModel> model_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::unordered_map<RequestId, int> running_;  // at the engine → its choice
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
        last_(static_cast<std::size_t>(job.reply.choices()), started),
        first_(last_.size(), true) {}

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
    const RequestId id = timed.event.id;
    const auto choice = job_.choice_of(id);
    if (!choice || failure_) return;
    if (const auto* finish = std::get_if<Finish>(&timed.event.what)) {
      job_.finished(id);
      add_to_record(id, *choice, *finish);
      failure_ = failure_of(*finish, writer_.stopped(*choice));
      if (!failure_) out += writer_.finish(*choice, *finish);
    } else if (const auto* prompt =
                   std::get_if<PromptLogprobs>(&timed.event.what)) {
      writer_.push(*choice, *prompt);
    } else if (!writer_.stopped(*choice)) {
      observe(*choice, timed.when);
      out += writer_.push(*choice, std::get<SampledToken>(timed.event.what));
      // The engine knows nothing of stop strings: it learns here that this
      // choice has ended, and its Finish brings the counts.
      if (writer_.stopped(*choice)) job_.cancel(id);
    }
  }

  void add_to_record(RequestId id, int choice, const Finish& finish) {
    service_.metrics().observe_queue(finish.timings.queue_ms / 1000);
    // The engine's own lines know its number alone.
    if (finish.reason == FinishReason::error)
      spdlog::error("request id={} failed; to the engine it is request {}: {}",
                    record_.id, id, finish.error);
    if (choice % job_.reply.parameters.n != 0) return;  // each prompt once
    record_.cached_tokens =
        record_.cached_tokens.value_or(0) + finish.cache.memory_tokens +
        finish.cache.disk_tokens + finish.cache.remote_tokens;
  }

  void observe(int choice, Clock::time_point when) {
    record_.completion_tokens = record_.completion_tokens.value_or(0) + 1;
    const auto i = static_cast<std::size_t>(choice);
    const std::chrono::duration<double> since = when - last_[i];
    last_[i] = when;
    if (first_[i])
      service_.metrics().observe_first_token(since.count());
    else
      service_.metrics().observe_next_token(since.count());
    first_[i] = false;
  }

  // False: nothing more is to come. A choice that failed is the reply's end;
  // whoever drops the job cancels the others.
  awaitable<bool> give(std::string out) {
    if (failure_ && !transport_->streaming()) {
      status_ = http_status(*failure_);
      co_await send(error_reply(*failure_));
      co_return false;
    }
    if (failure_) out += error_event(http_status(*failure_), *failure_);
    if (!job_.reply.parameters.stream) {
      if (over()) {
        HttpReply reply{.body = std::move(out)};
        co_await send(std::move(reply));
      }
      co_return !over();
    }
    if (failure_) transport_->no_keep_alive();
    co_return co_await stream(std::move(out));
  }

  bool over() const { return failure_ || writer_.finished(); }

  awaitable<bool> stream(std::string out) {
    bool there = true;
    if (!transport_->streaming()) there = co_await transport_->begin_events();
    if (there && !out.empty())
      there = co_await transport_->write_events(std::move(out));
    if (there && over()) there = co_await transport_->end_events();
    if (!there) gone();
    co_return there && !over();
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
  // Of each choice: the last token, or the request's arrival.
  std::vector<Clock::time_point> last_;
  std::vector<bool> first_;
  std::optional<Error> failure_;
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

awaitable<int> answer_from_text(Endpoint endpoint, std::string body,
                                Service& service,
                                std::shared_ptr<Transport> transport) {
  const auto model = service.model();
  if (!model) {
    co_await transport->send(error_reply(*unavailable_reason(std::nullopt)));
    co_return 503;
  }
  const auto work = [&]() -> awaitable<HttpReply> {
    const auto json = answer_text(endpoint, body, model->services);
    if (!json) co_return error_reply(json.error());
    co_return HttpReply{.body = dump(*json)};
  };
  auto reply =
      co_await asio::co_spawn(service.pool(), work, asio::use_awaitable);
  const int status = reply.status;
  co_await transport->send(std::move(reply));
  co_return status;
}

awaitable<int> generate(Endpoint endpoint, std::string body, Service& service,
                        std::shared_ptr<Transport> transport,
                        RequestRecord& record) {
  if (is_text_endpoint(endpoint))
    co_return co_await answer_from_text(endpoint, std::move(body), service,
                                        transport);
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
  record.prompt_tokens = job->reply.prompt_tokens();
  ReplyWriter writer(endpoint, job->reply, model->services);
  Reply reply(service, transport, *job, *reader, writer, started, record);
  co_return co_await reply.answer();
}

}  // namespace reprise
