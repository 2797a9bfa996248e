#include "commands.h"

#include <fmt/format.h>

namespace reprise {

int fail(const Error& error) {
  fmt::print(stderr, "reprise: error: {}\n", error.message);
  return 1;
}

void add_sampling_flags(CLI::App& command, SamplingParams& sampling) {
  sampling.temperature = 0;  // the same answer to the same question
  command
      .add_option("--temperature", sampling.temperature,
                  "0: always the likeliest token; more: more varied")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command
      .add_option("--seed", sampling.seed,
                  "Which of the varied replies (with --temperature above 0)")
      ->capture_default_str();
}

}  // namespace reprise
