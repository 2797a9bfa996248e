// A body → a request for the engine: JSON, checks, chat template, tokens. May
// take long for a long prompt, so it runs on the work pool. Pure: no sockets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/chat_completions.h"
#include "api/parameters.h"
#include "base/result.h"
#include "request/request.h"
#include "server/model_services.h"
#include "server/routes.h"
#include "text/reasoning.h"

namespace reprise {

struct PreparedPrompt {
  Request request;          // ready for the engine, for the first choice
  std::string text = {};    // with `echo`: the prompt as the client sees it
  bool hidden_bos = false;  // the first id is ours, and not in the text
};

// How the reply's text is taken apart, of a model that thinks.
struct PreparedReasoning {
  ReasoningMarks marks;
  ReplyStart start = ReplyStart::open;
  bool in_content = false;  // "reasoning_format": "none": it is not
};

struct PreparedReply {
  GenerationParameters parameters;
  std::vector<PreparedPrompt> prompts;  // not empty
  std::optional<PreparedReasoning> reasoning = {};

  int choices() const {
    return static_cast<int>(prompts.size()) * parameters.n;
  }
  int prompt_tokens() const {  // each prompt once
    int sum = 0;
    for (const auto& prompt : prompts)
      sum += static_cast<int>(prompt.request.prompt.size());
    return sum;
  }
  // Choices are counted over all prompts: prompt times n, plus which.
  const PreparedPrompt& prompt_of(int choice) const {
    return prompts[static_cast<std::size_t>(choice / parameters.n)];
  }
};

// Errors: not_found model_not_found for another model's name than this one's.
Result<void> check_model(const Json& body, const ModelServices& model);

// A chat's body, checked, with the prompt that it becomes. Errors: as
// api/chat_completions.h and ChatTemplate::render_chat; unsupported for a model
// without a template.
struct RenderedRequest {
  ChatRequest chat;
  ChatTemplate::RenderedChat prompt;
};
Result<RenderedRequest> render_chat(const Json& body, bool calls_for_reply,
                                    const ModelServices& model);

// Errors: as api/*.h; not_found model_not_found for another model's name;
// context_length_exceeded, with both numbers, for a prompt that leaves no room
// for a reply. max_tokens beyond the context is cut to what fits. A seed is
// drawn if none was given.
Result<PreparedReply> prepare(Endpoint endpoint, std::string_view body,
                              const ModelServices& model);

// Of the choices of a prompt, the first has the seed itself and the others
// have seeds made from it, so that n changes none of the first ones.
Request request_of(const PreparedReply& reply, int choice);

}  // namespace reprise
