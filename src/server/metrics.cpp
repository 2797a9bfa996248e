#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <utility>

#include "base/process_memory.h"
#include "server/engine_metrics.h"

namespace reprise {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricType;
using prometheus::Registry;

namespace {

using Clock = std::chrono::steady_clock;

const Histogram::BucketBoundaries kStepBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};
const Histogram::BucketBoundaries kRowBuckets = {1,  2,  4,   8,  16,
                                                 32, 64, 128, 256};
const Histogram::BucketBoundaries kTokenBuckets = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
const Histogram::BucketBoundaries kQueueBuckets = {
    0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300};
const Histogram::BucketBoundaries kFirstTokenBuckets = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120};
const Histogram::BucketBoundaries kNextTokenBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 5};

Counter& counter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add({});
}

Gauge& gauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(
      {});
}

Histogram& histogram(Registry& registry, const char* name, const char* help,
                     const Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add({}, buckets);
}

}  // namespace

struct Metrics::State {
  explicit State(const std::string& version) {
    prometheus::BuildGauge()
        .Name("reprise_build_info")
        .Help("Always 1; the label says which program this is")
        .Register(registry)
        .Add({{"version", version}})
        .Set(1);
  }

  const Clock::time_point started = Clock::now();
  Registry registry;
  prometheus::Family<Counter>& requests =
      prometheus::BuildCounter()
          .Name("reprise_requests_total")
          .Help("Requests answered, by endpoint and HTTP status")
          .Register(registry);
  Counter& disconnects =
      counter(registry, "reprise_disconnects_total",
              "Requests whose client went away before the end");
  Gauge& connections =
      gauge(registry, "reprise_connections", "Connections open");
  Histogram& step_seconds =
      histogram(registry, "reprise_step_seconds",
                "A forward step, from its plan to its tokens", kStepBuckets);
  Histogram& step_rows = histogram(registry, "reprise_step_rows",
                                   "Requests in a forward step", kRowBuckets);
  Histogram& step_tokens =
      histogram(registry, "reprise_step_tokens",
                "Tokens evaluated by a forward step", kTokenBuckets);
  Histogram& queue = histogram(
      registry, "reprise_queue_seconds",
      "From a request's arrival at the engine to its admission", kQueueBuckets);
  Histogram& first_token = histogram(
      registry, "reprise_time_to_first_token_seconds",
      "From a request's last byte to its first token", kFirstTokenBuckets);
  Histogram& next_token =
      histogram(registry, "reprise_inter_token_seconds",
                "Between two tokens of one reply", kNextTokenBuckets);
};

Metrics::Metrics(const std::string& version)
    : state_(std::make_unique<State>(version)) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& endpoint, int status) {
  state_->requests
      .Add({{"endpoint", endpoint}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::count_disconnect() {
  state_->disconnects.Increment();
}

void Metrics::connection_opened() {
  state_->connections.Increment();
}

void Metrics::connection_closed() {
  state_->connections.Decrement();
}

void Metrics::observe_step(const StepReport& report) {
  state_->step_seconds.Observe(report.seconds);
  state_->step_rows.Observe(report.rows);
  state_->step_tokens.Observe(report.tokens);
}

void Metrics::observe_queue(double seconds) {
  state_->queue.Observe(seconds);
}

void Metrics::observe_first_token(double seconds) {
  state_->first_token.Observe(seconds);
}

void Metrics::observe_next_token(double seconds) {
  state_->next_token.Observe(seconds);
}

std::string Metrics::text(const std::optional<EngineStatus>& status,
                          std::size_t body_bytes) const {
  auto families = state_->registry.Collect();
  const auto now = [&](const char* name, const char* help, double value) {
    families.push_back(metric_family(MetricType::Gauge, name, help, {{value}}));
  };
  const std::chrono::duration<double> uptime = Clock::now() - state_->started;
  now("reprise_uptime_seconds", "Since the server was started", uptime.count());
  now("reprise_resident_bytes", "Resident memory of the process",
      static_cast<double>(resident_bytes()));
  now("reprise_body_bytes", "Bodies of requests that are being read",
      static_cast<double>(body_bytes));
  if (status)
    for (auto& family : engine_families(*status))
      families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace reprise
