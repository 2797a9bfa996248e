// `reprise serve`: listens at once, loads, serves until it is told to stop.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "commands.h"
#include "model_flags.h"
#include "serve_flags.h"
#include "server/server.h"
#include "text_model.h"

namespace reprise {
namespace {

constexpr std::chrono::seconds kStopGrace{10};
constexpr std::chrono::milliseconds kPoll{50};  // a signal sets a flag, only

volatile std::sig_atomic_t stop_asked = 0;
void ask_to_stop(int) {
  stop_asked = 1;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a client that went away is an error code
}

ModelServices services_of(const TextModel& text, const RunnerInfo& runner) {
  return {.id = text.id,
          .tokenizer = text.tokenizer,
          .chat_template = text.chat_template,
          .eos = text.end_tokens,
          .context_tokens = runner.context_tokens,
          .vocabulary = runner.vocabulary,
          .created = std::time(nullptr),
          .keeps_snapshots = runner.slot_count > 0};
}

// What is loaded: the engine in its own thread, the text side in another.
struct Loaded {
  std::unique_ptr<Engine> engine;
  std::future<Result<TextModel>> text;

  bool done() const {
    return engine->status().health != EngineHealth::loading &&
           text.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
};

Loaded start_loading(const ModelFlags& flags, Server& server) {
  return {.engine = start_engine(flags,
                                 [&server](const StepReport& report) {
                                   server.observe_step(report);
                                 }),
          .text = std::async(std::launch::async, load_text_model, flags.model)};
}

// The reading of weights cannot be interrupted, and nothing of it is worth
// waiting for: no request was taken, no file is being written. So the process
// ends without joining the threads that load.
[[noreturn]] void stop_while_loading(Server& server) {
  spdlog::info("stopping: the model was still loading");
  server.stop(std::chrono::milliseconds(0));
  spdlog::default_logger()->flush();
  ::_exit(0);
}

int serve_until_stopped(Server& server, const Engine& engine) {
  while (!stop_asked) {
    if (engine.status().health == EngineHealth::failed) {
      server.stop(std::chrono::milliseconds(0));  // it uses the engine
      return fail({ErrorKind::internal, engine.status().failure});
    }
    std::this_thread::sleep_for(kPoll);
  }
  spdlog::info("stopping: running replies have {} s", kStopGrace.count());
  server.stop(kStopGrace);
  return 0;
}

int serve(ServeFlags& flags) {
  if (const auto set = set_log_level(flags.model.log_level); !set)
    return fail(set.error());
  if (const auto completed = complete(flags); !completed)
    return fail(completed.error());
  handle_signals();
  Server server(flags.server);
  if (const auto started = server.start(); !started)
    return fail(started.error());
  spdlog::info("listening on http://{}:{}, loading {}", flags.server.host,
               server.port(), flags.model.model);

  auto loading = start_loading(flags.model, server);
  while (!loading.done()) {
    if (stop_asked) stop_while_loading(server);
    std::this_thread::sleep_for(kPoll);
  }
  Engine& engine = *loading.engine;
  const auto text = loading.text.get();
  if (const auto ready = engine.wait_ready(); !ready)
    return fail(ready.error());
  if (!text) return fail(text.error());
  const ModelServices services = services_of(*text, engine.status().runner);
  server.set_model(services, backend_of(engine));
  spdlog::info("ready: model '{}', context {} tokens, http://{}:{}/v1",
               services.id, services.context_tokens, flags.server.host,
               server.port());
  return serve_until_stopped(server, engine);
}

}  // namespace

CommandMain add_serve(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  flags->server.version = REPRISE_VERSION;
  CLI::App& command =
      *app.add_subcommand("serve", "Serve a model over OpenAI's HTTP API");
  add_serve_flags(command, *flags);
  command.footer(
      "Examples:\n"
      "  reprise serve -m model.gguf\n"
      "  reprise serve -m ~/models/chat -np 8 --state-memory 16GiB\n"
      "  curl http://127.0.0.1:8080/v1/models");
  return [flags] { return serve(*flags); };
}

}  // namespace reprise
