// `reprise serve`: listens at once, loads, serves until it is told to stop.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include "base/log.h"
#include "commands.h"
#include "model_flags.h"
#include "server/server.h"
#include "text_model.h"

namespace reprise {
namespace {

constexpr std::chrono::seconds kStopGrace{10};

struct ServeFlags {
  ModelFlags model;
  ServerOptions server;
};

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
          .created = std::time(nullptr)};
}

int serve(const ServeFlags& flags) {
  if (const auto set = set_log_level(flags.model.log_level); !set)
    return fail(set.error());
  handle_signals();
  Server server(flags.server);
  if (const auto started = server.start(); !started)
    return fail(started.error());
  spdlog::info("listening on http://{}:{}, loading {}", flags.server.host,
               server.port(), flags.model.model);

  // The engine loads weights in its thread while this one reads the text side.
  const auto engine = start_engine(flags.model);
  const auto text = load_text_model(flags.model.model);
  const auto ready = engine->wait_ready();
  if (!ready) return fail(ready.error());
  if (!text) return fail(text.error());
  const ModelServices services = services_of(*text, engine->status().runner);
  server.set_model(services, backend_of(*engine));
  spdlog::info("ready: model '{}', context {} tokens, http://{}:{}/v1",
               services.id, services.context_tokens, flags.server.host,
               server.port());

  while (!stop_asked) {
    if (engine->status().health == EngineHealth::failed) {
      server.stop(std::chrono::milliseconds(0));  // it uses the engine
      return fail({ErrorKind::internal, engine->status().failure});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  spdlog::info("stopping: running replies have {} s", kStopGrace.count());
  server.stop(kStopGrace);
  return 0;
}

}  // namespace

CommandMain add_serve(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  flags->server.version = REPRISE_VERSION;
  CLI::App& command =
      *app.add_subcommand("serve", "Serve a model over OpenAI's HTTP API");
  add_model_flags(command, flags->model);
  command.add_option("--host", flags->server.host, "Address to listen on")
      ->capture_default_str();
  command
      .add_option("--port", flags->server.port,
                  "Port to listen on; 0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command.footer(
      "Examples:\n"
      "  reprise serve -m model.gguf\n"
      "  reprise serve -m ~/models/chat -np 8 --state-memory 16GiB\n"
      "  curl http://127.0.0.1:8080/v1/models");
  return [flags] { return serve(*flags); };
}

}  // namespace reprise
