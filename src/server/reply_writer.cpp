#include "server/reply_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/errors.h"

namespace reprise {

namespace {

std::string event_line(const Json& value) {
  return "data: " + dump(value) + "\n\n";
}

ReplyHead make_head(Endpoint endpoint, const std::string& model) {
  std::random_device device;
  const auto number = [&] {
    return (static_cast<std::uint64_t>(device()) << 32) | device();
  };
  const char* prefix = endpoint == Endpoint::chat ? "chatcmpl" : "cmpl";
  return {fmt::format("{}-{:016x}{:016x}", prefix, number(), number()),
          static_cast<std::int64_t>(std::time(nullptr)), model};
}

}  // namespace

ReplyWriter::ReplyWriter(Endpoint endpoint, const PreparedRequest& prepared,
                         const ModelServices& model)
    : endpoint_(endpoint),
      prepared_(prepared),
      head_(make_head(endpoint, model.id)),
      text_(model.tokenizer, prepared.parameters.stop) {}

// Chat streams open with the role; completions only where the prompt's ids
// were asked for, so that those never wait for text.
std::string ReplyWriter::opening() {
  opened_ = true;
  ReplyPart part{.first = true,
                 .show_token_ids = prepared_.parameters.return_token_ids,
                 .prompt_token_ids = prepared_.request.prompt};
  if (endpoint_ == Endpoint::chat) return event_line(chat_chunk(head_, part));
  if (!part.show_token_ids) return {};
  return event_line(completion_chunk(head_, part));
}

std::string ReplyWriter::events_of(std::string text, const ReplyEnd* end) {
  std::string events = opened_ ? "" : opening();
  const ReplyPart part{.text = std::move(text),
                       .end = end,
                       .show_token_ids = prepared_.parameters.return_token_ids,
                       .token_ids = unsent_ids_};
  events +=
      event_line(endpoint_ == Endpoint::chat ? chat_chunk(head_, part)
                                             : completion_chunk(head_, part));
  unsent_ids_.clear();
  return events;
}

std::string ReplyWriter::push(TokenId token) {
  if (stopped()) return {};
  ++completion_tokens_;
  unsent_ids_.push_back(token);
  // A token that ends the reply is counted, and never shown, whatever the
  // tokenizer thinks of it.
  const auto& ends = prepared_.request.stop_tokens;
  std::string text;
  if (std::find(ends.begin(), ends.end(), token) == ends.end())
    text = text_.push(token);
  if (!prepared_.parameters.stream) {
    whole_ += text;
    return {};
  }
  if (text.empty()) return opened_ ? "" : opening();
  return events_of(std::move(text), nullptr);
}

std::string ReplyWriter::finish(const Finish& finish) {
  const ReplyEnd end{
      .length = finish.reason == FinishReason::length && !stopped(),
      .prompt_tokens = static_cast<int>(prepared_.request.prompt.size()),
      .completion_tokens = completion_tokens_,
      .cache = finish.cache,
      .timings = finish.timings};
  std::string rest = text_.finish();
  const auto& parameters = prepared_.parameters;
  if (!parameters.stream) {
    const ReplyPart part{.text = std::move(whole_) + rest,
                         .end = &end,
                         .show_token_ids = parameters.return_token_ids,
                         .token_ids = unsent_ids_,
                         .prompt_token_ids = prepared_.request.prompt};
    return dump(endpoint_ == Endpoint::chat ? chat_reply(head_, part)
                                            : completion_reply(head_, part));
  }
  std::string events;
  if (!rest.empty()) events += events_of(std::move(rest), nullptr);
  events += events_of("", &end);
  if (parameters.include_usage)
    events += event_line(usage_chunk(
        head_,
        endpoint_ == Endpoint::chat ? kChatChunkObject : kCompletionObject,
        end));
  return events + "data: [DONE]\n\n";
}

}  // namespace reprise
