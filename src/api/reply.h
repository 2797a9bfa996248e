// What every generating endpoint says about a reply besides its text: usage,
// cache and timings. Plain values in, JSON out.
#pragma once

#include <cstdint>
#include <optional>
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

// Known when the reply has ended, with all its choices.
struct ReplyEnd {
  int prompt_tokens = 0;      // each prompt once, however many choices
  int completion_tokens = 0;  // end-of-reply tokens included
  std::optional<int> reasoning_tokens = {};  // of a model that thinks
  CacheReport cache;                         // of the prompts, each once
  Timings timings;  // predicted_n is replaced by completion_tokens
};

// Known when one choice has ended.
struct ChoiceEnd {
  bool length = false;  // finish_reason "length", else "stop"
  // Of this choice's own prompt, where there are several choices.
  const CacheReport* cache = nullptr;
};

// A part of a choice: all of it, or one chunk of a stream.
struct ReplyPart {
  int index = 0;  // of the choice
  std::string text = {};
  std::string reasoning = {};      // chats only
  bool first = false;              // the first chunk of a stream
  bool content_may_wait = false;   // a model that thinks: null until there is
                                   // any, where others send ""
  const ChoiceEnd* end = nullptr;  // on a whole choice and on its last chunk
  Json logprobs = nullptr;         // of this part
  Json prompt_logprobs = nullptr;  // on a whole choice
  bool show_token_ids = false;     // the client sent return_token_ids
  std::span<const TokenId> token_ids = {};         // of this part
  std::span<const TokenId> prompt_token_ids = {};  // shown on whole and first
};

// {prompt_tokens, completion_tokens, total_tokens,
//  prompt_tokens_details: {cached_tokens}}, and where the model thinks
// completion_tokens_details: {reasoning_tokens}.
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

// {index, logprobs, finish_reason}, and what else both endpoints say of a
// choice.
Json choice_json(const ReplyPart& part);

// {id, object, created, model}, the frame of every reply and chunk.
Json reply_frame(const ReplyHead& head, const char* object);

// The last chunk before [DONE] for a client that asked for usage: no choices.
Json usage_chunk(const ReplyHead& head, const char* object,
                 const ReplyEnd& end);

}  // namespace reprise
