#include "conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "text/token_stream.h"

namespace reprise {
namespace {

// Events from the engine's thread to this one. Shared with the sink, which
// the engine may hold a moment longer than the caller waits.
class Mailbox {
 public:
  void put(const Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    arrived_.notify_one();
  }

  // Empty when nothing came in time.
  std::optional<Event> take(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, patience, [&] { return !events_.empty(); }))
      return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;  // guarded by mutex_
};

}  // namespace

Result<Reply> generate(Engine& engine, const TextModel& text,
                       std::vector<TokenId> prompt,
                       const GenerateOptions& options,
                       const std::function<void(const std::string&)>& write,
                       const std::function<bool()>& interrupted) {
  const int context = engine.status().runner.context_tokens;
  const int room = context - static_cast<int>(prompt.size());
  if (room < 1)
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "the conversation has {} tokens and the context {}: start a new "
            "one, or raise --context-length",
            prompt.size(), context)};
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.sampling.vocabulary = text.tokenizer->size();
  request.max_tokens =
      options.max_tokens > 0 ? std::min(options.max_tokens, room) : room;
  request.stop_tokens = text.end_tokens;

  auto mailbox = std::make_shared<Mailbox>();
  const auto id = engine.submit(std::move(request),
                                [mailbox](const Event& e) { mailbox->put(e); });
  if (!id) return id.error();

  TokenStream stream(text.tokenizer, {});
  Reply reply;
  const auto emit = [&](const std::string& piece) {
    reply.text += piece;
    if (!piece.empty()) write(piece);
  };
  bool cancelled = false;
  for (;;) {
    const auto event = mailbox->take(std::chrono::milliseconds(50));
    if (!cancelled && interrupted()) {
      engine.cancel(*id);
      cancelled = true;
    }
    if (!event) continue;
    if (const auto* token = std::get_if<SampledToken>(&event->what)) {
      emit(stream.push(token->id));
      continue;
    }
    reply.finish = std::get<Finish>(event->what);
    emit(stream.finish());
    if (reply.finish.reason == FinishReason::error)
      return Error{ErrorKind::internal, reply.finish.error};
    return reply;
  }
}

std::string describe(const Finish& finish) {
  const CacheReport& cache = finish.cache;
  const Timings& times = finish.timings;
  const int reused =
      cache.memory_tokens + cache.disk_tokens + cache.remote_tokens;
  const double rate =
      times.predicted_n > 1 && times.predicted_ms > 0
          ? (times.predicted_n - 1) * 1000.0 / times.predicted_ms
          : 0;
  return fmt::format(
      "{} prompt tokens ({} cached), first token {:.0f} ms, {} tokens at "
      "{:.1f}/s",
      reused + cache.evaluated_tokens, reused, times.queue_ms + times.prompt_ms,
      times.predicted_n, rate);
}

}  // namespace reprise
