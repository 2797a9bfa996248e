// engine/model_runner.h without MLX: a FakeRunner of a real model's size (and
// engine/inspect_model.h, which has nothing to tell of it). It
// reads the settings of a folder or a GGUF file and checks the files' headers,
// so a damaged file is refused as the program refuses it; weights are not read.
//
// Replies are a function of the whole history. In a folder that
// tests/support/script_model.py wrote they are the script's, as with the real
// program: script.json has [token, token after it].
#include "engine/model_runner.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/process_memory.h"
#include "engine/fake_runner.h"
#include "engine/inspect_model.h"
#include "weights/gguf_config.h"
#include "weights/safetensors_file.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A step takes about as long as one of a small model, so that a test can leave
// in the middle of a prompt.
constexpr std::chrono::microseconds kStepTime{500}, kTokenTime{100};
constexpr std::size_t kBlocksMax = 1 << 14;
constexpr float kScriptLogit = 100;  // above all of FakeRunner's

template <typename T>
T value_or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

json read_json(const fs::path& path, json::value_t kind) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(fmt::format("'{}' is missing", path.string()));
  json value = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (value.type() != kind)
    throw std::runtime_error(
        fmt::format("'{}' is not such JSON as it should be", path.string()));
  return value;
}

json folder_config(const fs::path& folder) {
  json config = read_json(folder / "config.json", json::value_t::object);
  bool weights = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    value_or_throw(SafetensorsFile::open(entry.path().string()));
    weights = true;
  }
  if (!weights)
    throw std::runtime_error(
        fmt::format("'{}' has no safetensors file", folder.string()));
  return config;
}

json model_config(const std::string& path) {
  if (fs::is_directory(path)) return folder_config(path);
  return value_or_throw(gguf_config(value_or_throw(GgufFile::open(path))));
}

int setting(const json& config, const char* key, int fallback = 0) {
  const auto found = config.find(key);
  if (found == config.end() && fallback > 0) return fallback;
  const bool number = found != config.end() && found->is_number_integer();
  const auto value = number ? found->get<std::int64_t>() : 0;
  if (value <= 0 || value > std::numeric_limits<std::int32_t>::max())
    throw std::runtime_error(
        fmt::format("{} is {}, and a positive integer is needed", key,
                    found == config.end() ? "missing" : found->dump()));
  return static_cast<int>(value);
}

// Keys and values of every layer in float32, as the real program reserves.
std::size_t block_bytes(const json& config) {
  const int heads = setting(config, "num_attention_heads");
  const int head_dim =
      setting(config, "head_dim", setting(config, "hidden_size") / heads);
  return std::size_t{2} * sizeof(float) * kBlockTokens *
         static_cast<std::size_t>(setting(config, "num_hidden_layers")) *
         static_cast<std::size_t>(
             setting(config, "num_key_value_heads", heads)) *
         static_cast<std::size_t>(head_dim);
}

int blocks_that_fit(std::size_t each, std::size_t budget_bytes) {
  const std::size_t bytes =
      budget_bytes > 0 ? budget_bytes : available_bytes() / 10 * 4;
  if (bytes < each)
    throw std::runtime_error(fmt::format(
        "--state-memory {} holds no block: one takes {} bytes", bytes, each));
  return static_cast<int>(std::min(bytes / each, kBlocksMax));
}

// Empty when the folder has no script.
std::map<TokenId, TokenId> read_script(const std::string& path) {
  const fs::path file = fs::path(path) / "script.json";
  std::map<TokenId, TokenId> script;
  if (!fs::exists(file)) return script;
  for (const auto& [token, after] :
       read_json(file, json::value_t::array)
           .get<std::vector<std::pair<TokenId, TokenId>>>())
    script[token] = after;
  return script;
}

class FakeModel : public Runner {
 public:
  FakeModel(FakeRunnerOptions options, std::size_t block_bytes)
      : runner_(std::move(options)), block_bytes_(block_bytes) {}

  RunnerInfo info() const override {
    RunnerInfo info = runner_.info();
    info.block_bytes = block_bytes_;
    return info;
  }

  StepLogits run(const StepPlan& plan) override {
    std::size_t tokens = 0;
    for (const StepRow& row : plan.rows) tokens += row.tokens.size();
    std::this_thread::sleep_for(kStepTime + kTokenTime * tokens);
    try {
      return runner_.run(plan);
    } catch (const FakeRunnerLie& lie) {
      // The engine would take it for a failed step and go on.
      spdlog::critical("state is wrong: {}", lie.what());
      std::abort();
    }
  }

 private:
  FakeRunner runner_;
  const std::size_t block_bytes_;
};

}  // namespace

std::unique_ptr<Runner> make_model_runner(const ModelRunnerOptions& options) {
  const json config = model_config(options.model_path);
  const std::size_t each = block_bytes(config);
  const int vocabulary = setting(config, "vocab_size");
  FakeRunnerOptions fake;
  fake.vocabulary = vocabulary;
  fake.context_tokens = setting(config, "max_position_embeddings", 2048);
  fake.block_count = blocks_that_fit(each, options.state_memory_bytes);
  if (auto script = read_script(options.model_path); !script.empty())
    fake.logits_of = [script = std::move(script),
                      vocabulary](std::span<const TokenId> history) {
      auto logits = FakeRunner::logits_after(history, vocabulary);
      const auto next = script.find(history.back());
      if (next != script.end()) logits.at(next->second) = kScriptLogit;
      return logits;
    };
  return std::make_unique<FakeModel>(std::move(fake), each);
}

ModelInspection inspect_model(const std::string& path, const std::string&,
                              const KvQuantization&) {
  throw std::runtime_error(
      fmt::format("'{}' cannot be shown without MLX", path));
}

std::string describe_backend(const std::string&) {
  return "fake model, cpu";
}

}  // namespace reprise
