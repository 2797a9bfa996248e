#include "model_flags.h"

#include <fmt/format.h>

#include <utility>

#include "base/size.h"

namespace reprise {
namespace {

// CLI11 wants its own exception; the message is ours.
std::size_t positive_size(const std::string& name, const std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes) throw CLI::ValidationError(name, bytes.error().message);
  if (*bytes == 0)
    throw CLI::ValidationError(name, "0 bytes hold nothing: give a size");
  return *bytes;
}

}  // namespace

void add_size_flag(CLI::App& command, const std::string& name,
                   std::size_t& bytes, const std::string& help) {
  command
      .add_option_function<std::string>(
          name,
          [&bytes, name](const std::string& text) {
            bytes = positive_size(name, text);
          },
          help)
      ->type_name("SIZE")
      ->default_str(format_size(bytes));
}

void add_seconds_flag(CLI::App& command, const std::string& name,
                      std::chrono::milliseconds& duration,
                      const std::string& help) {
  const std::chrono::duration<double> now = duration;
  command
      .add_option_function<double>(
          name,
          [&duration](double seconds) {
            duration = std::chrono::round<std::chrono::milliseconds>(
                std::chrono::duration<double>(seconds));
          },
          help)
      ->check(CLI::Range(0.001, 86'400.0))
      ->type_name("SECONDS")
      ->default_str(fmt::format("{:g}", now.count()));
}

void add_model_path(CLI::App& command, std::string& path) {
  command
      .add_option(
          "-m,--model,model", path,
          "A folder with config.json and *.safetensors (Hugging Face or MLX), "
          "or a .gguf file")
      ->required();
}

void add_dtype(CLI::App& command, std::string& dtype) {
  command
      .add_option(
          "--dtype", dtype,
          "Type of activations and state (auto: float32 on the CPU, bfloat16 "
          "on a GPU)")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
}

void add_kv_flags(CLI::App& command, KvQuantization& kv) {
  command
      .add_option("--kv-bits", kv.bits,
                  "Store keys, values and latents in 8 or 4 bits: a half or "
                  "a quarter of bfloat16's memory, for a little accuracy "
                  "(default: as they are computed)")
      ->check(CLI::IsMember({8, 4}));
  command
      .add_option("--kv-group-size", kv.group_size,
                  "With --kv-bits: elements that share a scale. A part of the "
                  "state whose rows are no multiple of it stays as it is")
      ->check(CLI::IsMember({32, 64, 128}))
      ->capture_default_str();
  command
      .add_option("--quantized-kv-start", kv.start,
                  "With --kv-bits: the first tokens stay as they are, to a "
                  "multiple of 256")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
}

void add_runner_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option_function<std::string>(
          "--state-memory",
          [&flags](const std::string& text) {
            flags.state_memory_bytes =
                text == "auto" ? 0 : positive_size("--state-memory", text);
          },
          "Memory for running requests and the prefix cache: bytes, or with "
          "KiB, MiB, GiB, or auto (40 % of what is free after loading)")
      ->default_str("auto");
  command.add_option("--device", flags.device, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "gpu"}))
      ->capture_default_str();
  add_dtype(command, flags.dtype);
  add_kv_flags(command, flags.kv);
  command
      .add_option("--log-level", flags.log_level, "How much to log, to stderr")
      ->check(
          CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  add_model_path(command, flags.model);
  command
      .add_option("-c,--context-length", flags.context_tokens,
                  "Tokens of prompt and reply together (default: the model's)")
      ->check(CLI::Range(1, 1 << 30));
  command
      .add_option(
          "--parallel", flags.parallel,
          "Requests in computation at once; others wait in line (short: -np)")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  add_runner_flags(command, flags);
}

ModelRunnerOptions runner_options(const ModelFlags& flags) {
  return {.model_path = flags.model,
          .device = flags.device,
          .dtype = flags.dtype,
          .state_memory_bytes = flags.state_memory_bytes,
          .parallel = flags.parallel,
          .kv = flags.kv};
}

std::unique_ptr<Engine> start_engine(
    const ModelFlags& flags, std::function<void(const StepReport&)> on_step) {
  const ModelRunnerOptions runner = runner_options(flags);
  EngineOptions options;
  options.parallel = flags.parallel;
  options.context_tokens = flags.context_tokens;
  options.step_timeout = flags.step_timeout;
  options.on_step = std::move(on_step);
  return std::make_unique<Engine>(
      [runner] { return make_model_runner(runner); }, options);
}

}  // namespace reprise
