#include "server/engine_metrics.h"

#include <array>
#include <utility>

namespace reprise {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

double number(std::size_t count) {
  return static_cast<double>(count);
}

MetricFamily counter(const char* name, const char* help,
                     const std::vector<Sample>& samples) {
  return metric_family(MetricType::Counter, name, help, samples);
}

MetricFamily gauge(const char* name, const char* help,
                   const std::vector<Sample>& samples) {
  return metric_family(MetricType::Gauge, name, help, samples);
}

std::vector<MetricFamily> token_counters(const SchedulerStatus& s) {
  return {counter("reprise_prompt_tokens_total",
                  "Prompt tokens of admitted requests",
                  {{number(s.prompt_tokens)}}),
          counter("reprise_cached_tokens_total",
                  "Prompt tokens whose state was reused, by where it was",
                  {{number(s.cached_tokens), {"tier", "memory"}}}),
          counter("reprise_evaluated_tokens_total",
                  "Tokens of prompts and replies that were computed",
                  {{number(s.evaluated_tokens)}}),
          counter("reprise_generated_tokens_total", "Tokens sampled",
                  {{number(s.generated_tokens)}})};
}

// One value a reason; `none` is where nothing kept a request from reusing all.
std::vector<Sample> by_reason(
    const std::array<std::size_t, kMissReasonCount>& counts) {
  std::vector<Sample> out;
  for (int i = 0; i < kMissReasonCount; ++i) {
    const char* reason = to_string(static_cast<MissReason>(i));
    out.push_back({number(counts.at(i)), {"reason", reason ? reason : "none"}});
  }
  return out;
}

std::vector<MetricFamily> cache_counters(const SchedulerStatus& s) {
  return {counter("reprise_cache_lookups_total",
                  "Admitted requests, by what kept them from reusing more",
                  by_reason(s.lookups)),
          counter("reprise_cache_missed_tokens_total",
                  "Prompt tokens that had to be evaluated, by the same reason",
                  by_reason(s.missed_tokens))};
}

std::vector<MetricFamily> step_counters(const SchedulerStatus& s) {
  return {
      counter("reprise_steps_total", "Forward steps", {{number(s.steps)}}),
      counter("reprise_steps_failed_total", "Forward steps that failed",
              {{number(s.steps_failed)}}),
      counter("reprise_blocks_evicted_total", "Cached blocks that made room",
              {{number(s.blocks_evicted)}}),
      counter("reprise_snapshots_evicted_total",
              "Cached snapshots that made room",
              {{number(s.snapshots_evicted)}}),
      counter("reprise_preemptions_total",
              "Running requests that were set back", {{number(s.preemptions)}}),
      counter("reprise_requests_started_over_total",
              "Requests that failed alone and were computed from nothing",
              {{number(s.requests_started_over)}}),
      counter("reprise_blocks_quarantined_total",
              "Cached blocks that a request had failed on",
              {{number(s.blocks_quarantined)}})};
}

std::vector<MetricFamily> gauges(const EngineStatus& status) {
  const auto& s = status.scheduler;
  return {gauge("reprise_ready", "1 while requests are served",
                {{status.health == EngineHealth::ready ? 1.0 : 0.0}}),
          gauge("reprise_requests_running", "Requests in computation",
                {{double(s.running)}}),
          gauge("reprise_requests_waiting", "Requests queued",
                {{double(s.waiting)}}),
          gauge("reprise_blocks", "Blocks of state memory, by use",
                {{double(s.blocks_free), {"state", "free"}},
                 {double(s.blocks_cached), {"state", "cached"}},
                 {double(s.blocks_held), {"state", "held"}}}),
          gauge("reprise_snapshots", "Snapshots of state memory, by use",
                {{double(s.slots_free), {"state", "free"}},
                 {double(s.slots_cached), {"state", "cached"}},
                 {double(s.slots_held), {"state", "held"}}}),
          gauge("reprise_block_bytes", "Size of one block",
                {{number(status.runner.block_bytes)}}),
          gauge("reprise_kv_bits", "Bits of quantized state, 0: none is",
                {{double(status.runner.kv_bits)}})};
}

void append(std::vector<MetricFamily>& to, std::vector<MetricFamily> from) {
  for (auto& family : from) to.push_back(std::move(family));
}

}  // namespace

MetricFamily metric_family(MetricType type, const std::string& name,
                           const std::string& help,
                           const std::vector<Sample>& samples) {
  MetricFamily out;
  out.name = name;
  out.help = help;
  out.type = type;
  for (const auto& sample : samples) {
    ClientMetric metric;
    if (!sample.label.first.empty())
      metric.label = {{sample.label.first, sample.label.second}};
    if (type == MetricType::Counter)
      metric.counter.value = sample.value;
    else
      metric.gauge.value = sample.value;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

std::vector<MetricFamily> engine_families(const EngineStatus& status) {
  std::vector<MetricFamily> out;
  append(out, token_counters(status.scheduler));
  append(out, cache_counters(status.scheduler));
  append(out, step_counters(status.scheduler));
  append(out, gauges(status));
  return out;
}

}  // namespace reprise
