// Vec16: sixteen float32 lanes, and the operations that kernels are written
// in. A source file for one instruction set is two lines,
//
//   #define REPRISE_ISA avx512
//   #include "kernels/cpu/swiglu_kernel.h"
//
// with REPRISE_ISA generic, avx2 or avx512, and the compiler flags of that set
// (CMakeLists.txt does it for names that end in _avx2.cpp and _avx512.cpp).
// The kernel's header then opens namespace reprise::kernels::cpu::REPRISE_ISA
// and finds Vec16 there. Every operation gives the same bits in all of them:
// one IEEE rounding each, no contraction, nothing approximate. (Which NaN comes
// out of several is not promised.)
//
// A function that the linker could take from a file compiled for AVX-512 and
// give to the one for any processor would crash there. So such files define
// functions only inside that namespace, and use no inline function or template
// from outside: no std::min, no std::fma, no containers. Builtins and
// intrinsics are fine.
//
//   broadcast(f) zeros()
//   load(p) store(p, v)                16 elements; float, BFloat16, Float16
//   load_first(p, n) store_first(..)   the first n of 0..16; other lanes zero,
//                                      other memory untouched
//   fma(a, b, c)                       a * b + c, rounded once
//   add sub mul div sqrt
//   min(a, b) max(a, b)                a < b ? a : b, a > b ? a : b
//   round(v)                           to the nearest integer, ties to even
//   scale_by_power(v, n)               v * 2^n, n integers in -126..127
//   select_less(a, b, x, y)            a < b ? x : y, lane by lane
//   sum(v)                             lane i + lane i+8, then +4, +2, +1
//   sum4(a, b, c, d, out)              four of these at once, to out[0..3]
//   lane_max(v)                        the largest lane, by max() in that tree
//   unpack<bits>(p)                    the 16 fields of `bits` bits at p as
//                                      numbers; reads 2 * bits bytes
//   Dequantizer<bits>(scale, bias)(p)  fma(field, scale, bias) of these
//   AnyOrderDequantizer<bits>          the same with its lanes in whatever
//                                      order is fastest; to_order(v) and
//                                      from_order(v) bring others there and
//                                      back
#pragma once

#include "kernels/cpu/element.h"

#if !defined(REPRISE_ISA)
#error "define REPRISE_ISA as generic, avx2 or avx512 first"
#endif

// Compares the macro's text: each name expands to a number of its own.
#define REPRISE_ISA_NUMBER_generic 1
#define REPRISE_ISA_NUMBER_avx2 2
#define REPRISE_ISA_NUMBER_avx512 3
#define REPRISE_ISA_NUMBER_(name) REPRISE_ISA_NUMBER_##name
#define REPRISE_ISA_NUMBER(name) REPRISE_ISA_NUMBER_(name)

#if REPRISE_ISA_NUMBER(REPRISE_ISA) == 3
#include "kernels/cpu/vec16_avx512.h"
#elif REPRISE_ISA_NUMBER(REPRISE_ISA) == 2
#include "kernels/cpu/vec16_avx2.h"
#else
#include "kernels/cpu/vec16_generic.h"
#endif
