#include "server/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "server/engine_metrics.h"

namespace reprise {
namespace {

using testing::HasSubstr;
using testing::Not;

void expect_lines(const std::string& page,
                  const std::vector<std::string>& lines) {
  for (const auto& line : lines) EXPECT_THAT(page, HasSubstr(line + "\n"));
}

EngineStatus busy() {
  EngineStatus status;
  status.health = EngineHealth::ready;
  status.runner.block_bytes = 19;
  status.runner.kv_bits = 8;
  auto& s = status.scheduler;
  s.waiting = 2;
  s.running = 3;
  s.blocks_free = 5;
  s.blocks_cached = 6;
  s.blocks_held = 7;
  s.prompt_tokens = 11;
  s.cached_tokens = 12;
  s.evaluated_tokens = 13;
  s.generated_tokens = 14;
  s.steps = 15;
  s.steps_failed = 16;
  s.preemptions = 17;
  s.blocks_evicted = 18;
  s.slots_free = 40;
  s.slots_cached = 41;
  s.slots_held = 42;
  s.snapshots_evicted = 43;
  s.requests_started_over = 44;
  s.blocks_quarantined = 45;
  s.lookups = {20, 21, 22, 23, 24, 25, 26, 27, 28};
  s.missed_tokens = {30, 31, 32, 33, 34, 35, 36, 37, 38};
  return status;
}

TEST(Metrics, TheEnginesBooks) {
  expect_lines(Metrics("1").text(busy(), 0),
               {"reprise_requests_waiting 2",
                "reprise_requests_running 3",
                "reprise_blocks{state=\"free\"} 5",
                "reprise_blocks{state=\"cached\"} 6",
                "reprise_blocks{state=\"held\"} 7",
                "reprise_block_bytes 19",
                "reprise_kv_bits 8",
                "reprise_prompt_tokens_total 11",
                "reprise_cached_tokens_total{tier=\"memory\"} 12",
                "reprise_evaluated_tokens_total 13",
                "reprise_generated_tokens_total 14",
                "reprise_steps_total 15",
                "reprise_steps_failed_total 16",
                "reprise_preemptions_total 17",
                "reprise_blocks_evicted_total 18",
                "reprise_snapshots{state=\"free\"} 40",
                "reprise_snapshots{state=\"cached\"} 41",
                "reprise_snapshots{state=\"held\"} 42",
                "reprise_snapshots_evicted_total 43",
                "reprise_requests_started_over_total 44",
                "reprise_blocks_quarantined_total 45",
                "reprise_ready 1"});
}

TEST(Metrics, EachReasonOfAMissHasItsName) {
  const char* reasons[] = {"none",      "diverged",     "no_snapshot",
                           "evicted",   "store_failed", "corrupt",
                           "namespace", "disabled",     "cheaper_to_compute"};
  const auto page = Metrics("1").text(busy(), 0);
  for (int i = 0; i < kMissReasonCount; ++i)
    expect_lines(
        page,
        {fmt::format("reprise_cache_lookups_total{{reason=\"{}\"}} {}",
                     reasons[i], 20 + i),
         fmt::format("reprise_cache_missed_tokens_total{{reason=\"{}\"}} {}",
                     reasons[i], 30 + i)});
}

TEST(Metrics, ReadyFollowsTheHealth) {
  auto status = busy();
  for (const auto health :
       {EngineHealth::loading, EngineHealth::stuck, EngineHealth::failed}) {
    status.health = health;
    expect_lines(Metrics("1").text(status, 0), {"reprise_ready 0"});
  }
}

TEST(Metrics, WhatTheServerCounts) {
  Metrics metrics("1.2.3");
  metrics.count_request("/health", 200);
  metrics.count_request("/health", 200);
  metrics.count_disconnect();
  metrics.connection_opened();
  metrics.connection_opened();
  metrics.connection_closed();
  metrics.observe_step({.seconds = 0.3, .rows = 3, .tokens = 70});
  metrics.observe_queue(0.02);
  metrics.observe_first_token(0.3);
  metrics.observe_next_token(0.004);
  const auto page = metrics.text(std::nullopt, 77);
  expect_lines(page,
               {"reprise_build_info{version=\"1.2.3\"} 1",
                "reprise_requests_total{endpoint=\"/health\",status=\"200\"} 2",
                "reprise_disconnects_total 1",
                "reprise_connections 1",
                "reprise_step_seconds_bucket{le=\"0.25\"} 0",
                "reprise_step_seconds_bucket{le=\"0.5\"} 1",
                "reprise_step_rows_bucket{le=\"2\"} 0",
                "reprise_step_rows_bucket{le=\"4\"} 1",
                "reprise_step_rows_sum 3",
                "reprise_step_tokens_bucket{le=\"64\"} 0",
                "reprise_step_tokens_bucket{le=\"128\"} 1",
                "reprise_step_tokens_sum 70",
                "reprise_body_bytes 77",
                "reprise_queue_seconds_count 1",
                "reprise_queue_seconds_bucket{le=\"0.01\"} 0",
                "reprise_queue_seconds_bucket{le=\"0.05\"} 1",
                "reprise_time_to_first_token_seconds_bucket{le=\"0.25\"} 0",
                "reprise_time_to_first_token_seconds_bucket{le=\"0.5\"} 1",
                "reprise_inter_token_seconds_count 1",
                "# TYPE reprise_inter_token_seconds histogram"});
  EXPECT_THAT(page, Not(HasSubstr("reprise_steps_total")))
      << "what nobody knows yet is not said to be 0";
}

TEST(Metrics, EveryLineIsPrometheusText) {
  Metrics metrics("1");
  metrics.count_request("/health", 200);
  const std::regex shape(
      R"(# (HELP|TYPE) \S+ .*|[a-zA-Z_:][\w:]*(\{[^}]*\})? \S+)");
  std::stringstream lines(metrics.text(busy(), 0));
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(std::regex_match(line, shape)) << line;
}

TEST(EngineFamilies, EachHasANameOfItsOwnAndHelp) {
  std::vector<std::string> names;
  for (const auto& family : engine_families(busy())) {
    EXPECT_THAT(names, Not(testing::Contains(family.name)));
    names.push_back(family.name);
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.name.ends_with("_total"),
              family.type == prometheus::MetricType::Counter)
        << family.name;
  }
}

}  // namespace
}  // namespace reprise
