// `reprise chat`: a chat in the terminal, the model in this process.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "base/log.h"
#include "commands.h"
#include "conversation.h"
#include "model_flags.h"
#include "text_model.h"

namespace reprise {
namespace {

struct ChatFlags {
  ModelFlags model;
  std::string system;
  SamplingParams sampling;
};

// Ctrl-C ends the reply that is being written; at the prompt it ends the chat.
volatile std::sig_atomic_t interrupts = 0;
void count_interrupt(int) {
  interrupts = interrupts + 1;
}

class Chat {
 public:
  Chat(Engine& engine, const TextModel& text, const ChatFlags& flags)
      : engine_(engine), text_(text), flags_(flags) {
    start_over();
  }

  void start_over() {
    messages_ = nlohmann::json::array();
    if (!flags_.system.empty())
      messages_.push_back({{"role", "system"}, {"content", flags_.system}});
  }

  // One turn; on an error the user's message is taken back.
  void say(const std::string& line) {
    messages_.push_back({{"role", "user"}, {"content", line}});
    const auto reply = answer();
    if (!reply) {
      messages_.erase(messages_.size() - 1);
      fmt::print(stderr, "error: {}\n", reply.error().message);
      return;
    }
    messages_.push_back({{"role", "assistant"}, {"content", reply->text}});
    fmt::print(stderr, "\n[{}]\n", describe(reply->finish));
  }

 private:
  Result<Reply> answer() {
    const auto prompt =
        text_.chat_template->encode_chat(messages_, {}, *text_.tokenizer);
    if (!prompt) return prompt.error();
    GenerateOptions options;
    options.sampling = flags_.sampling;
    options.sampling.seed += messages_.size();  // turns differ
    const auto before = interrupts;
    return generate(
        engine_, text_, *prompt, options,
        [](const std::string& piece) {
          std::fwrite(piece.data(), 1, piece.size(), stdout);
          std::fflush(stdout);
        },
        [before] { return interrupts != before; });
  }

  Engine& engine_;
  const TextModel& text_;
  const ChatFlags& flags_;
  nlohmann::json messages_;
};

int chat(const ChatFlags& flags) {
  if (const auto set = set_log_level(flags.model.log_level); !set)
    return fail(set.error());
  const auto text = load_text_model(flags.model.model);
  if (!text) return fail(text.error());
  if (!text->chat_template)
    return fail({ErrorKind::unsupported,
                 "this model has no chat template: use `reprise run --raw`"});
  const auto engine = start_engine(flags.model);
  if (const auto ready = engine->wait_ready(); !ready)
    return fail(ready.error());

  struct sigaction action {};
  action.sa_handler = count_interrupt;  // no SA_RESTART: reading a line ends
  ::sigaction(SIGINT, &action, nullptr);
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  if (terminal)
    fmt::print(stderr,
               "{}. /new starts over, /exit or Ctrl-D leaves, Ctrl-C cuts a "
               "reply short.\n",
               text->id);
  Chat session(*engine, *text, flags);
  for (std::string line;;) {
    if (terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line) || line == "/exit") break;
    if (line == "/new")
      session.start_over();
    else if (!line.empty())
      session.say(line);
  }
  return 0;
}

}  // namespace

CommandMain add_chat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  flags->model.parallel = 1;
  flags->model.log_level = "warning";
  CLI::App& command =
      *app.add_subcommand("chat", "Chat with a model in this terminal");
  add_model_flags(command, flags->model);
  command.add_option("--system", flags->system,
                     "A system message to begin with");
  add_sampling_flags(command, flags->sampling);
  command.footer(
      "Example:\n  reprise chat -m model.gguf --system \"Be brief.\"");
  return [flags] { return chat(*flags); };
}

}  // namespace reprise
