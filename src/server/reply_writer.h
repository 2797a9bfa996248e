// A reply's tokens → the JSON that its client gets: events of a stream, or one
// document at the end. Pure; not thread-safe, one object a reply.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/reply.h"
#include "request/event.h"
#include "server/prepare.h"
#include "text/token_stream.h"

namespace reprise {

class ReplyWriter {
 public:
  // `prepared` outlives the writer.
  ReplyWriter(Endpoint endpoint, const PreparedRequest& prepared,
              const ModelServices& model);

  // One token more. Ignored once stopped(). Streaming: the events it makes
  // certain, possibly none ("data: ...\n\n").
  std::string push(TokenId token);

  // A stop string was met: nothing further is shown.
  bool stopped() const { return text_.stopped(); }

  // The reply has ended. Streaming: the events that are left, [DONE]
  // included. Otherwise the whole document.
  std::string finish(const Finish& finish);

 private:
  std::string events_of(std::string text, const ReplyEnd* end);
  std::string opening();

  const Endpoint endpoint_;
  const PreparedRequest& prepared_;
  ReplyHead head_;
  TokenStream text_;
  bool opened_ = false;
  int completion_tokens_ = 0;
  std::string whole_;                // not streaming: the text so far
  std::vector<TokenId> unsent_ids_;  // not in any event yet
};

}  // namespace reprise
