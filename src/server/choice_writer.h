// One choice's events → the parts of it that its client gets. Pure; not
// thread-safe, one object a choice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/logprobs.h"
#include "api/reply.h"
#include "request/event.h"
#include "server/model_services.h"
#include "server/prepare.h"
#include "text/reasoning.h"
#include "text/token_stream.h"

namespace reprise {

class ChoiceWriter {
 public:
  // `reply` outlives the writer.
  ChoiceWriter(EndpointKind kind, const PreparedReply& reply, int choice,
               const ModelServices& model);
  ChoiceWriter(const ChoiceWriter&) = delete;  // borrows from itself
  ChoiceWriter& operator=(const ChoiceWriter&) = delete;

  void push(const PromptLogprobs& logprobs);
  void push(const SampledToken& token);  // ignored once stopped()
  void finish(const Finish& finish);

  // A stop string was met: nothing further is shown.
  bool stopped() const { return text_.stopped(); }
  bool finished() const { return finish_.has_value(); }

  // There is text that take() has not given.
  bool has_text() const { return !text_out_.empty() || !reasoning_.empty(); }

  // What came since the last time: text, token ids, log-probabilities. With
  // `last`, the choice's end, too. The part borrows from this until the next
  // push.
  ReplyPart take(bool last);

  // The chunk that opens a stream, before any text.
  ReplyPart opening() const;

  const Finish& end() const { return *finish_; }
  int completion_tokens() const { return completion_tokens_; }
  int reasoning_tokens() const { return reasoning_tokens_; }

 private:
  // Characters of a text, as its bytes come in.
  class CharacterCount {
   public:
    int whole() const { return started_ - (missing_ > 0 ? 1 : 0); }
    void add(std::string_view bytes);

   private:
    int started_ = 0;
    int missing_ = 0;  // bytes of the last one
  };

  void begin();
  bool shows(TokenId token) const;
  void add_text(std::string text);
  void score(TokenId id, std::optional<TokenLogprobs> logprobs, bool shown);
  Json logprobs_json() const;
  Json prompt_logprobs_json() const;

  const EndpointKind kind_;
  const PreparedReply& reply_;
  const PreparedPrompt& prompt_;
  const int index_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const TokenBytesOf bytes_of_;
  TokenStream text_;
  std::optional<ReasoningSplitter> splitter_;
  std::vector<TokenLogprobs> prompt_logprobs_;  // from its second token on
  bool begun_ = false;
  int completion_tokens_ = 0;
  int reasoning_tokens_ = 0;
  std::optional<Finish> finish_;
  ChoiceEnd end_;
  CharacterCount characters_;

  // Not in any part yet:
  std::string text_out_;
  std::string reasoning_;
  std::vector<TokenId> ids_;
  std::vector<ScoredToken> scored_;

  std::vector<TokenId> taken_ids_;  // what the last part refers to
};

}  // namespace reprise
