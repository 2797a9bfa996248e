// Prefill and decode speed of a model through the real runner, in the terms
// of llama-bench: pp512 is a prompt of 512 tokens, tg128 are 128 tokens, one
// at a time. Prints the best and the median of the repetitions, the process's
// peak resident memory, and beside each figure the time its threads waited
// for a core: where that is more than a few per cent, the machine was not
// ours alone and the figure is a lower bound.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/process_memory.h"
#include "base/size.h"
#include "engine/model_runner.h"
#include "scheduler/limits.h"
#include "support/sequence_driver.h"

namespace {

using reprise::SequenceDriver;
using reprise::TokenId;

double now_seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Seconds that this process's threads were ready to run and had no core:
// the second field of each thread's schedstat, in nanoseconds.
double core_wait_seconds() {
  double total = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "schedstat");
    double ran = 0, waited = 0;
    file >> ran >> waited;
    total += waited * 1e-9;
  }
  return total;
}

struct Measured {
  std::vector<double> rates;  // tokens per second, one a repetition
  double seconds = 0;
  double waited = 0;
};

// Spans of a prompt are as long as the server makes them at most.
constexpr int kSpanMax = reprise::SchedulerLimits{}.step_tokens_max;

// Feeds `depth` tokens, then measures `tokens` more, in spans of `span`.
struct Shape {
  int tokens = 0;
  int span = 1;
  int depth = 0;
};

Measured measure(reprise::Runner& runner, int repetitions, const Shape& shape) {
  Measured result;
  // The first round pages weights in and wakes the threads: not counted.
  for (int i = 0; i <= repetitions; ++i) {
    SequenceDriver sequence(runner);
    for (int done = 0; done < shape.depth; done += kSpanMax)
      sequence.feed(
          std::vector<TokenId>(std::min(kSpanMax, shape.depth - done), 42));
    const std::vector<TokenId> span(shape.span, 42);
    const double wait = core_wait_seconds();
    const double start = now_seconds();
    for (int done = 0; done < shape.tokens; done += shape.span)
      sequence.feed(span);
    const double took = now_seconds() - start;
    if (i == 0) continue;
    result.waited += core_wait_seconds() - wait;
    result.seconds += took;
    result.rates.push_back(shape.tokens / took);
  }
  std::sort(result.rates.begin(), result.rates.end());
  return result;
}

void print(const std::string& name, const Measured& m) {
  fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} % |\n", name, m.rates.back(),
             m.rates[m.rates.size() / 2], 100 * m.waited / m.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prefill and decode speed of one model");
  std::string model;
  std::string dtype = "auto";
  int repetitions = 5;
  app.add_option("-m,--model", model, "Folder or .gguf file")->required();
  app.add_option("--dtype", dtype)->capture_default_str();
  app.add_option("-r,--repetitions", repetitions)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  reprise::start_log();

  const auto runner = reprise::make_model_runner(
      {.model_path = model,
       .dtype = dtype,
       .state_memory_bytes = std::size_t{512} << 20});
  fmt::print(
      "{} on {} in {}\n\n| test | best, tok/s | median, tok/s | waited for a "
      "core |\n|---|--:|--:|--:|\n",
      model, runner->info().device, runner->info().dtype);
  for (const int count : {128, 512, 2048})
    print(fmt::format("pp{}", count),
          measure(*runner, repetitions,
                  {.tokens = count, .span = std::min(count, kSpanMax)}));
  for (const int depth : {0, 1024, 4096})
    print(fmt::format("tg128 @ {}", depth),
          measure(*runner, repetitions, {.tokens = 128, .depth = depth}));
  fmt::print("\npeak resident memory {}\n",
             reprise::format_size(reprise::peak_resident_bytes()));
}
