// A reply's events → the JSON that its client gets: events of a stream, or one
// document at the end. Pure; not thread-safe, one object a reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/reply.h"
#include "request/event.h"
#include "server/choice_writer.h"
#include "server/prepare.h"

namespace reprise {

// Choices are numbered as in PreparedReply.
class ReplyWriter {
 public:
  // `prepared` outlives the writer.
  ReplyWriter(Endpoint endpoint, const PreparedReply& prepared,
              const ModelServices& model);

  void push(int choice, const PromptLogprobs& logprobs);

  // One token more. Ignored once the choice has stopped(). Streaming: the
  // events it makes certain, possibly none ("data: ...\n\n").
  std::string push(int choice, const SampledToken& token);

  // A stop string was met: nothing further of this choice is shown.
  bool stopped(int choice) const { return choices_[choice]->stopped(); }

  // The choice has ended; once a choice. Streaming: the events that are left
  // of it. When it was the last, what closes the reply: usage and [DONE], or
  // the whole document.
  std::string finish(int choice, const Finish& finish);

  bool finished() const { return left_ == 0; }

 private:
  std::string chunk(const ReplyPart& part, const ReplyEnd* end = nullptr) const;
  std::string open(int choice);
  ReplyEnd reply_end() const;
  std::string whole(const ReplyEnd& end);

  const EndpointKind kind_;
  const PreparedReply& prepared_;
  ReplyHead head_;
  std::vector<std::unique_ptr<ChoiceWriter>> choices_;
  std::vector<bool> opened_;
  int left_;
};

}  // namespace reprise
