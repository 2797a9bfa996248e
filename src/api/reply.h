// What every generating endpoint says about a reply besides its text: usage,
// cache and timings. Plain values in, JSON out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "api/json.h"
#include "request/event.h"
#include "request/request.h"

namespace reprise {

// The same on every chunk of one reply.
struct ReplyHead {
  std::string id;            // "chatcmpl-..." or "cmpl-..."
  std::int64_t created = 0;  // Unix time, seconds
  std::string model;
};

// Known when the reply has ended.
struct ReplyEnd {
  bool length = false;  // finish_reason "length", else "stop"
  int prompt_tokens = 0;
  int completion_tokens = 0;  // an end-of-reply token included
  CacheReport cache;
  Timings timings;  // predicted_n is replaced by completion_tokens
};

// A part of a reply: all of it, or one chunk of a stream.
struct ReplyPart {
  std::string text = {};
  bool first = false;             // first chunk of a stream
  const ReplyEnd* end = nullptr;  // on a whole reply and on the last chunk
  bool show_token_ids = false;    // the client sent return_token_ids
  std::span<const TokenId> token_ids = {};         // of this part
  std::span<const TokenId> prompt_token_ids = {};  // shown on whole and first
};

// {prompt_tokens, completion_tokens, total_tokens,
//  prompt_tokens_details: {cached_tokens}}
Json usage_json(const ReplyEnd& end);

// {memory_tokens, disk_tokens, remote_tokens, evaluated_tokens, miss_reason,
//  miss_position}; the last two are null on a full hit.
Json cache_json(const CacheReport& cache);

// llama.cpp's keys, queue_ms and restore_ms. prompt_n counts the evaluated
// tokens, cache_n the reused ones. predicted_ms starts at the first token, so
// predicted_per_second counts the tokens after it. A speed without a duration
// is 0.
Json timings_json(const ReplyEnd& end);

// Adds `usage`-free end matter to a chunk or a whole reply: cache, timings.
void add_end(Json& reply, const ReplyEnd& end);

const char* finish_word(const ReplyEnd& end);  // "stop" or "length"

// {id, object, created, model}, the frame of every reply and chunk.
Json reply_frame(const ReplyHead& head, const char* object);

// The last chunk before [DONE] for a client that asked for usage: no choices.
Json usage_chunk(const ReplyHead& head, const char* object,
                 const ReplyEnd& end);

}  // namespace reprise
