// Which instruction set the CPU kernels use. A kernel is written once, over
// the sixteen lanes of vec16.h, and compiled once for each instruction set in
// a file with its own flags; this decides which of them runs. All give the
// same bits.
//
// A kernel's header declares its entry points for all of them, its caller
// picks one:
//
//   REPRISE_DECLARE_PER_ISA(void swiglu(const float* x, float* out, int n);)
//   REPRISE_PICK_ISA(swiglu)(x, out, n);
//
// both inside namespace reprise::kernels::cpu.
#pragma once

#include <string_view>
#include <vector>

namespace reprise::kernels::cpu {

enum class Isa { generic, avx2, avx512 };

std::string_view isa_name(Isa isa);

// What this processor can run, generic first.
std::vector<Isa> available_isas();

// The one in use: the last available, or what the environment variable
// REPRISE_ISA names (generic, avx2 or avx512; one that is unknown or that
// this processor lacks is ignored with a warning). Any thread.
Isa current_isa();

// For tests and benchmarks, between evaluations. CHECKs that it is available.
void set_isa(Isa isa);

#if defined(__x86_64__)
#define REPRISE_DECLARE_PER_ISA(...) \
  namespace generic {                \
  __VA_ARGS__                        \
  }                                  \
  namespace avx2 {                   \
  __VA_ARGS__                        \
  }                                  \
  namespace avx512 {                 \
  __VA_ARGS__                        \
  }
#define REPRISE_PICK_ISA(function)                                       \
  ::reprise::kernels::cpu::pick_isa(&generic::function, &avx2::function, \
                                    &avx512::function)
template <typename Function>
Function* pick_isa(Function* generic, Function* avx2, Function* avx512) {
  const Isa isa = current_isa();
  return isa == Isa::avx512 ? avx512 : isa == Isa::avx2 ? avx2 : generic;
}
#else
#define REPRISE_DECLARE_PER_ISA(...) \
  namespace generic {                \
  __VA_ARGS__                        \
  }
#define REPRISE_PICK_ISA(function) (&generic::function)
#endif

}  // namespace reprise::kernels::cpu
