#include "kernels/cpu/isa.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/check.h"

namespace reprise::kernels::cpu {
namespace {

bool is_available(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") &&
                    __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (isa == Isa::avx2) return avx2;
  if (isa == Isa::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  return isa == Isa::generic;
}

Isa choose() {
  const auto isas = available_isas();
  const char* wanted = std::getenv("REPRISE_ISA");
  if (wanted == nullptr || *wanted == '\0') return isas.back();
  for (Isa isa : isas)
    if (isa_name(isa) == wanted) return isa;
  spdlog::warn("REPRISE_ISA={} is not one that this processor has; using {}",
               wanted, isa_name(isas.back()));
  return isas.back();
}

std::atomic<Isa>& current() {
  static std::atomic<Isa> isa = choose();
  return isa;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return "generic";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "?";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512})
    if (is_available(isa)) isas.push_back(isa);
  return isas;
}

Isa current_isa() {
  return current().load(std::memory_order_relaxed);
}

void set_isa(Isa isa) {
  CHECK(is_available(isa), "this processor has no {}", isa_name(isa));
  current().store(isa, std::memory_order_relaxed);
}

}  // namespace reprise::kernels::cpu
