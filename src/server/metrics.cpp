#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "base/process_memory.h"

namespace reprise {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

const Histogram::BucketBoundaries kFirstTokenBuckets = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120};
const Histogram::BucketBoundaries kNextTokenBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 5};

// One family with the values of the moment, each with at most one label.
struct Sample {
  double value = 0;
  std::string label = {};  // value of the label `state`, or empty
};

MetricFamily family(MetricType type, const char* name, const char* help,
                    const std::vector<Sample>& samples) {
  MetricFamily out;
  out.name = name;
  out.help = help;
  out.type = type;
  for (const auto& sample : samples) {
    ClientMetric metric;
    if (!sample.label.empty()) metric.label = {{"state", sample.label}};
    if (type == MetricType::Counter)
      metric.counter.value = sample.value;
    else
      metric.gauge.value = sample.value;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

double number(std::size_t count) {
  return static_cast<double>(count);
}

std::vector<MetricFamily> engine_counters(const SchedulerStatus& s) {
  const auto counter = [](const char* name, const char* help, double value) {
    return family(MetricType::Counter, name, help, {{value}});
  };
  return {
      counter("reprise_prompt_tokens_total",
              "Prompt tokens of admitted requests", number(s.prompt_tokens)),
      counter("reprise_cached_tokens_total",
              "Prompt tokens whose state was reused", number(s.cached_tokens)),
      counter("reprise_evaluated_tokens_total",
              "Tokens of prompts and replies that were computed",
              number(s.evaluated_tokens)),
      counter("reprise_generated_tokens_total", "Tokens sampled",
              number(s.generated_tokens)),
      counter("reprise_steps_total", "Forward steps", number(s.steps)),
      counter("reprise_steps_failed_total", "Forward steps that failed",
              number(s.steps_failed)),
      counter("reprise_blocks_evicted_total", "Cached blocks that made room",
              number(s.blocks_evicted)),
      counter("reprise_preemptions_total",
              "Running requests that were set back", number(s.preemptions))};
}

std::vector<MetricFamily> engine_gauges(const EngineStatus& status) {
  const auto& s = status.scheduler;
  return {
      family(MetricType::Gauge, "reprise_ready", "1 while requests are served",
             {{status.health == EngineHealth::ready ? 1.0 : 0.0}}),
      family(MetricType::Gauge, "reprise_requests_running",
             "Requests in computation", {{double(s.running)}}),
      family(MetricType::Gauge, "reprise_requests_waiting", "Requests queued",
             {{double(s.waiting)}}),
      family(MetricType::Gauge, "reprise_blocks", "Blocks of state memory",
             {{double(s.blocks_free), "free"},
              {double(s.blocks_cached), "cached"},
              {double(s.blocks_held), "held"}}),
      family(MetricType::Gauge, "reprise_block_bytes", "Size of one block",
             {{number(status.runner.block_bytes)}})};
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
  for (auto& value : from) to.push_back(std::move(value));
}

}  // namespace

struct Metrics::State {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter()
          .Name("reprise_requests_total")
          .Help("Requests answered, by endpoint and HTTP status")
          .Register(registry);
  prometheus::Counter& disconnects =
      prometheus::BuildCounter()
          .Name("reprise_disconnects_total")
          .Help("Requests whose client went away before the end")
          .Register(registry)
          .Add({});
  Histogram& first_token =
      prometheus::BuildHistogram()
          .Name("reprise_time_to_first_token_seconds")
          .Help("From a request's last byte to its first token")
          .Register(registry)
          .Add({}, kFirstTokenBuckets);
  Histogram& next_token = prometheus::BuildHistogram()
                              .Name("reprise_inter_token_seconds")
                              .Help("Between two tokens of one reply")
                              .Register(registry)
                              .Add({}, kNextTokenBuckets);
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& endpoint, int status) {
  state_->requests
      .Add({{"endpoint", endpoint}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::count_disconnect() {
  state_->disconnects.Increment();
}

void Metrics::observe_first_token(double seconds) {
  state_->first_token.Observe(seconds);
}

void Metrics::observe_next_token(double seconds) {
  state_->next_token.Observe(seconds);
}

std::string Metrics::text(const std::optional<EngineStatus>& status) const {
  auto families = state_->registry.Collect();
  families.push_back(family(MetricType::Gauge, "reprise_resident_bytes",
                            "Resident memory of the process",
                            {{number(resident_bytes())}}));
  if (status) {
    append(families, engine_counters(status->scheduler));
    append(families, engine_gauges(*status));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace reprise
