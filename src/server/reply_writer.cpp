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

ReplyHead make_head(EndpointKind kind, const std::string& model) {
  std::random_device device;
  const auto number = [&] {
    return (static_cast<std::uint64_t>(device()) << 32) | device();
  };
  const char* prefix = kind == EndpointKind::chat ? "chatcmpl" : "cmpl";
  return {fmt::format("{}-{:016x}{:016x}", prefix, number(), number()),
          static_cast<std::int64_t>(std::time(nullptr)), model};
}

// Of the prompts, each counted once.
void add_cache(CacheReport& sum, const CacheReport& one) {
  sum.memory_tokens += one.memory_tokens;
  sum.disk_tokens += one.disk_tokens;
  sum.remote_tokens += one.remote_tokens;
  sum.evaluated_tokens += one.evaluated_tokens;
  if (sum.miss_reason != MissReason::none) return;
  sum.miss_reason = one.miss_reason;
  sum.miss_position = one.miss_position;
}

// Choices run side by side: the slowest is what the client waited for.
void add_timings(Timings& longest, const Timings& one) {
  for (const auto field : {&Timings::queue_ms, &Timings::restore_ms,
                           &Timings::prompt_ms, &Timings::predicted_ms})
    longest.*field = std::max(longest.*field, one.*field);
}

}  // namespace

ReplyWriter::ReplyWriter(Endpoint endpoint, const PreparedReply& prepared,
                         const ModelServices& model)
    : kind_(endpoint == Endpoint::chat ? EndpointKind::chat
                                       : EndpointKind::completions),
      prepared_(prepared),
      head_(make_head(kind_, model.id)),
      opened_(static_cast<std::size_t>(prepared.choices())),
      left_(prepared.choices()) {
  for (int i = 0; i < prepared.choices(); ++i)
    choices_.push_back(
        std::make_unique<ChoiceWriter>(kind_, prepared, i, model));
}

// `end`: the whole reply ends with this chunk.
std::string ReplyWriter::chunk(const ReplyPart& part,
                               const ReplyEnd* end) const {
  auto json = kind_ == EndpointKind::chat ? chat_chunk(head_, part)
                                          : completion_chunk(head_, part);
  if (end) add_end(json, *end);
  return event_line(json);
}

// Chat streams open with the role; completions only where the prompt's ids
// were asked for, so that those never wait for text.
std::string ReplyWriter::open(int choice) {
  if (opened_[choice]) return {};
  opened_[choice] = true;
  if (kind_ == EndpointKind::completions &&
      !prepared_.parameters.return_token_ids)
    return {};
  return chunk(choices_[choice]->opening());
}

void ReplyWriter::push(int choice, const PromptLogprobs& logprobs) {
  choices_[choice]->push(logprobs);
}

std::string ReplyWriter::push(int choice, const SampledToken& token) {
  auto& writer = *choices_[choice];
  if (writer.stopped()) return {};
  writer.push(token);
  if (!prepared_.parameters.stream) return {};
  std::string events = open(choice);
  if (writer.has_text()) events += chunk(writer.take(false));
  return events;
}

std::string ReplyWriter::finish(int choice, const Finish& finish) {
  auto& writer = *choices_[choice];
  writer.finish(finish);
  --left_;
  if (!prepared_.parameters.stream)
    return finished() ? whole(reply_end()) : std::string();
  std::string events = open(choice);
  if (writer.has_text()) events += chunk(writer.take(false));
  if (!finished()) return events + chunk(writer.take(true));
  const auto end = reply_end();
  events += chunk(writer.take(true), &end);
  if (prepared_.parameters.include_usage)
    events += event_line(usage_chunk(
        head_,
        kind_ == EndpointKind::chat ? kChatChunkObject : kCompletionObject,
        end));
  return events + "data: [DONE]\n\n";
}

ReplyEnd ReplyWriter::reply_end() const {
  ReplyEnd end;
  int thought = 0;
  for (int i = 0; i < prepared_.choices(); ++i) {
    const auto& writer = *choices_[i];
    end.completion_tokens += writer.completion_tokens();
    thought += writer.reasoning_tokens();
    add_timings(end.timings, writer.end().timings);
    if (i % prepared_.parameters.n != 0) continue;
    end.prompt_tokens +=
        static_cast<int>(prepared_.prompt_of(i).request.prompt.size());
    add_cache(end.cache, writer.end().cache);
  }
  if (prepared_.reasoning && !prepared_.reasoning->in_content)
    end.reasoning_tokens = thought;
  return end;
}

std::string ReplyWriter::whole(const ReplyEnd& end) {
  std::vector<ReplyPart> parts;
  for (auto& writer : choices_) parts.push_back(writer->take(true));
  return dump(kind_ == EndpointKind::chat
                  ? chat_reply(head_, parts, end)
                  : completion_reply(head_, parts, end));
}

}  // namespace reprise
