#include "api/reply.h"

#include <algorithm>

namespace reprise {

namespace {

int cached_tokens(const CacheReport& cache) {
  return cache.memory_tokens + cache.disk_tokens + cache.remote_tokens;
}

double per_second(int count, double ms) {
  return ms > 0 ? 1000.0 * std::max(count, 0) / ms : 0.0;
}

}  // namespace

Json usage_json(const ReplyEnd& end) {
  Json out = {
      {"prompt_tokens", end.prompt_tokens},
      {"completion_tokens", end.completion_tokens},
      {"total_tokens", end.prompt_tokens + end.completion_tokens},
      {"prompt_tokens_details", {{"cached_tokens", cached_tokens(end.cache)}}}};
  if (end.reasoning_tokens)
    out["completion_tokens_details"] = {
        {"reasoning_tokens", *end.reasoning_tokens}};
  return out;
}

Json cache_json(const CacheReport& cache) {
  Json out = {{"memory_tokens", cache.memory_tokens},
              {"disk_tokens", cache.disk_tokens},
              {"remote_tokens", cache.remote_tokens},
              {"evaluated_tokens", cache.evaluated_tokens},
              {"miss_reason", nullptr},
              {"miss_position", nullptr}};
  if (const char* reason = to_string(cache.miss_reason)) {
    out["miss_reason"] = reason;
    out["miss_position"] = cache.miss_position;
  }
  return out;
}

Json timings_json(const ReplyEnd& end) {
  const Timings& t = end.timings;
  return {{"cache_n", cached_tokens(end.cache)},
          {"prompt_n", end.cache.evaluated_tokens},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_second",
           per_second(end.cache.evaluated_tokens, t.prompt_ms)},
          {"predicted_n", end.completion_tokens},
          {"predicted_ms", t.predicted_ms},
          {"predicted_per_second",
           per_second(end.completion_tokens - 1, t.predicted_ms)},
          {"queue_ms", t.queue_ms},
          {"restore_ms", t.restore_ms}};
}

void add_end(Json& reply, const ReplyEnd& end) {
  reply["cache"] = cache_json(end.cache);
  reply["timings"] = timings_json(end);
}

Json choice_json(const ReplyPart& part) {
  Json choice = {{"index", part.index},
                 {"logprobs", part.logprobs},
                 {"finish_reason", nullptr}};
  if (part.end) {
    choice["finish_reason"] = part.end->length ? "length" : "stop";
    if (part.end->cache) choice["cache"] = cache_json(*part.end->cache);
  }
  if (part.show_token_ids) choice["token_ids"] = part.token_ids;
  return choice;
}

Json reply_frame(const ReplyHead& head, const char* object) {
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model}};
}

Json usage_chunk(const ReplyHead& head, const char* object,
                 const ReplyEnd& end) {
  auto out = reply_frame(head, object);
  out["choices"] = Json::array();
  out["usage"] = usage_json(end);
  return out;
}

}  // namespace reprise
