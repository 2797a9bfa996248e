// The engine's books as metric families. Pure.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace reprise {

// One value of a family, with at most one label.
struct Sample {
  double value = 0;
  std::pair<std::string, std::string> label = {};
};

prometheus::MetricFamily metric_family(prometheus::MetricType type,
                                       const std::string& name,
                                       const std::string& help,
                                       const std::vector<Sample>& samples);

std::vector<prometheus::MetricFamily> engine_families(
    const EngineStatus& status);

}  // namespace reprise
