/* The text crate's C interface: Hugging Face tokenizers and Jinja chat
 * templates. Only src/text includes it.
 *
 * Rules for every function here:
 * - Text goes in as (data, size) in UTF-8; anything else is REPRISE_INVALID.
 *   Input is only read during the call.
 * - Nothing throws and no panic leaves: a panic becomes REPRISE_PANIC.
 * - A status other than REPRISE_OK leaves the outputs untouched and a message
 *   in reprise_last_error() of the calling thread.
 * - What comes out through a pointer belongs to the caller, who gives it back
 *   to the free function named beside it, once. NULL may be freed.
 * - Tokenizers and templates are immutable: any thread may use them at the
 *   same time. A stream belongs to one thread at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum reprise_status {
  REPRISE_OK = 0,
  REPRISE_INVALID = 1,     /* the caller's text, ids or template */
  REPRISE_UNSUPPORTED = 2, /* understood, not served: the message names it */
  REPRISE_CORRUPT = 3,     /* a vocabulary that contradicts itself */
  REPRISE_PANIC = 4        /* a bug in the crate or below it */
};

typedef struct reprise_tokenizer reprise_tokenizer;
typedef struct reprise_stream reprise_stream;
typedef struct reprise_template reprise_template;

/* Borrowed text. data may be NULL if size is 0. */
typedef struct reprise_text {
  const char* data;
  size_t size;
} reprise_text;

/* Owned bytes: free with reprise_buffer_free. Not zero-terminated. */
typedef struct reprise_buffer {
  char* data;
  size_t size;
  size_t capacity;
} reprise_buffer;

/* Owned numbers: free with reprise_ids_free. */
typedef struct reprise_ids {
  uint32_t* data;
  size_t size;
  size_t capacity;
} reprise_ids;

void reprise_buffer_free(reprise_buffer buffer);
void reprise_ids_free(reprise_ids ids);

/* The last error's message on this thread; valid until the next call of any
 * function here on this thread. */
reprise_text reprise_last_error(void);

/* ---- tokenizer ---- */

/* A GGUF file's tokenizer.ggml.* keys; types and merges are counted apart so
 * that lying files are seen. */
typedef struct reprise_gguf_vocabulary {
  reprise_text model;
  reprise_text pre;
  const reprise_text* tokens;
  size_t token_count;
  const int32_t* types;
  size_t type_count;
  const reprise_text* merges;
  size_t merge_count;
} reprise_gguf_vocabulary;

/* The text of a tokenizer.json. */
int reprise_tokenizer_from_json(reprise_text json,
                                reprise_tokenizer** tokenizer);
int reprise_tokenizer_from_gguf(const reprise_gguf_vocabulary* vocabulary,
                                reprise_tokenizer** tokenizer);
void reprise_tokenizer_free(reprise_tokenizer* tokenizer);

enum reprise_encode_mode {
  REPRISE_PARSE_SPECIALS = 0, /* special tokens in the text become ids */
  REPRISE_TEXT = 1,           /* they stay text */
  REPRISE_TEXT_INSIDE = 2     /* the same, for text that a special token
                                 precedes: no prefix of a text's beginning */
};

/* No token is put before or behind. */
int reprise_tokenizer_encode(const reprise_tokenizer* tokenizer,
                             reprise_text text, int mode, reprise_ids* ids);

/* Where special tokens stand in a text: triples (id, begin, end), in order,
 * covering it. Id is UINT32_MAX for the text between. Offsets are bytes; a
 * token's range may hold spaces that the token swallows. The text must be
 * shorter than 4 GiB. */
int reprise_tokenizer_split(const reprise_tokenizer* tokenizer,
                            reprise_text text, reprise_ids* triples);

/* Ids without a token are left out. */
int reprise_tokenizer_decode(const reprise_tokenizer* tokenizer,
                             const uint32_t* ids, size_t count,
                             int skip_specials, reprise_buffer* text);

/* -1: no such token. */
int64_t reprise_tokenizer_token_id(const reprise_tokenizer* tokenizer,
                                   reprise_text token);

/* The largest id + 1. */
size_t reprise_tokenizer_size(const reprise_tokenizer* tokenizer);

/* The ids of all special tokens, ascending. */
int reprise_tokenizer_specials(const reprise_tokenizer* tokenizer,
                               reprise_ids* ids);

/* A token as the vocabulary spells it (a special one: as a text has it). */
int reprise_tokenizer_token_text(const reprise_tokenizer* tokenizer,
                                 uint32_t id, reprise_buffer* text);

/* The special token that tokenizer.json's post-processor puts before a single
 * text, or -1. Always -1 for a GGUF vocabulary. */
int64_t reprise_tokenizer_first_token(const reprise_tokenizer* tokenizer);

/* ---- streaming ---- */

/* Use a stream with one tokenizer only. Special tokens are left out. */
int reprise_stream_new(reprise_stream** stream);
void reprise_stream_free(reprise_stream* stream);

/* The text that is certain after one more id: never a part of a character. */
int reprise_stream_push(reprise_stream* stream,
                        const reprise_tokenizer* tokenizer, uint32_t id,
                        reprise_buffer* text);

/* The rest; an incomplete character becomes U+FFFD. */
int reprise_stream_finish(reprise_stream* stream,
                          const reprise_tokenizer* tokenizer,
                          reprise_buffer* text);

/* ---- chat template ---- */

int reprise_template_compile(reprise_text source, reprise_template** compiled);
void reprise_template_free(reprise_template* compiled);

/* context: a JSON object, the template's variables in their order. now: Unix
 * time of strftime_now, shown in the machine's time zone. */
int reprise_template_render(const reprise_template* compiled,
                            reprise_text context, int64_t now,
                            reprise_buffer* text);

/* ---- tests ---- */

/* Panics inside, to show that it comes out as REPRISE_PANIC. */
int reprise_debug_panic(void);

#ifdef __cplusplus
}
#endif
