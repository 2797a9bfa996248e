#include "kernels/fault.h"

#include <utility>

namespace reprise::kernels {
namespace {

std::function<void(FaultStage)>& hook() {
  static std::function<void(FaultStage)> current;
  return current;
}

}  // namespace

void set_fault_hook(std::function<void(FaultStage)> next) {
  hook() = std::move(next);
}

void fault_point(FaultStage stage) {
  if (hook()) hook()(stage);
}

}  // namespace reprise::kernels
