// Products with weights and the gated delta rule on this machine, beside
// MLX's own and beside what the processor can do at most. Machines differ and
// are shared: compare figures of one run only. Each is the best of its
// repetitions; where threads=1 it is by processor time, so that other programs
// hardly matter.
//
//   kernels_bench --benchmark_filter=Prefill
#include <benchmark/benchmark.h>
#include <mlx/ops.h>
#include <mlx/random.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "fma_peak.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/experts.h"
#include "kernels/ops.h"
#include "kernels/plain.h"
#include "kernels/recurrence.h"

namespace {

namespace mx = mlx::core;
namespace kernels = reprise::kernels;
namespace cpu = reprise::kernels::cpu;
using kernels::QuantizedMatrix;
using mx::array;

// SmolLM2-135M: the matrices of a layer, 30 layers and a head.
struct Shape {
  int rows, columns;
};
constexpr Shape kLayer[] = {{576, 576},  {192, 576},  {192, 576}, {576, 576},
                            {1536, 576}, {1536, 576}, {576, 1536}};
constexpr Shape kHead = {49152, 576};
constexpr int kLayers = 30;

double clock_seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of the best of `repetitions`: of the process's processor time when
// one thread works, otherwise of the wall's.
template <typename F>
double best_seconds(int repetitions, F f) {
  const clockid_t clock =
      cpu::thread_count() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    const double start = clock_seconds(clock);
    f();
    best = std::min(best, clock_seconds(clock) - start);
  }
  return best;
}

// FLOP/s of all threads.
double peak() {
  constexpr int kLoops = 100000;
  const int threads = cpu::thread_count();
  double done = 0;
  const double seconds = best_seconds(30, [&] {
    cpu::parallel_for(threads, [&](int i) {
      const double flops = reprise::bench::fma_peak(cpu::current_isa(), kLoops);
      if (i == 0) done = flops;
    });
  });
  return done * threads / seconds;
}

QuantizedMatrix random_weights(const Shape& s, int bits, int group) {
  const auto scales = [&] {
    return mx::astype(mx::random::normal({s.rows, s.columns / group}),
                      mx::float16);
  };
  QuantizedMatrix w{mx::random::bits({s.rows, s.columns * bits / 32}), scales(),
                    scales(), group, bits};
  mx::eval(w.words, w.scales, w.biases);
  return w;
}

double weight_bytes(const QuantizedMatrix& w) {
  return static_cast<double>(w.words.nbytes() + w.scales.nbytes() +
                             w.biases.nbytes());
}

void use_threads(const benchmark::State& state) {
  cpu::set_thread_count(static_cast<int>(state.range(0)));
}

// One matrix, many rows. of_peak: of the multiply-adds that fit into the time.
// mlx: MLX's time over ours.
void prefill(benchmark::State& state, Shape s, int bits, mx::Dtype type) {
  use_threads(state);
  constexpr int kRows = 512;
  const QuantizedMatrix w = random_weights(s, bits, 32);
  array x = mx::random::normal({kRows, s.columns}, type);
  mx::eval(x);
  double seconds = 0, theirs = 0;
  for (auto _ : state) {
    seconds = best_seconds(40, [&] { mx::eval(kernels::matmul(x, w)); });
    theirs = best_seconds(1, [&] { mx::eval(kernels::plain::matmul(x, w)); });
    state.SetIterationTime(seconds);
  }
  const double flops = 2.0 * kRows * s.rows * s.columns / seconds;
  state.counters["GFLOP/s"] = flops * 1e-9;
  state.counters["of_peak"] = flops / peak();
  state.counters["mlx"] = theirs / seconds;
}

// All products of one step of `rows` tokens, with weights of their own for
// each layer, as in a model.
void decode(benchmark::State& state, int rows, int bits, mx::Dtype type) {
  use_threads(state);
  std::vector<QuantizedMatrix> weights;
  for (int i = 0; i < kLayers; ++i)
    for (const Shape& s : kLayer)
      weights.push_back(random_weights(s, bits, 32));
  weights.push_back(random_weights(kHead, bits, 32));
  array narrow = mx::random::normal({rows, 576}, type);
  array wide = mx::random::normal({rows, 1536}, type);
  mx::eval(narrow, wide);
  double bytes = 0;
  for (const auto& w : weights) bytes += weight_bytes(w);
  const auto step = [&](auto multiply) {
    std::vector<array> out;
    for (const auto& w : weights)
      out.push_back(multiply(w.columns() == 576 ? narrow : wide, w));
    mx::eval(out);
  };
  double seconds = 0, theirs = 0;
  for (auto _ : state) {
    seconds = best_seconds(40, [&] {
      step([](const array& x, const auto& w) { return kernels::matmul(x, w); });
    });
    theirs = best_seconds(1, [&] {
      step([](const array& x, const auto& w) {
        return kernels::plain::matmul(x, w);
      });
    });
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = bytes / seconds * 1e-9;
  state.counters["mlx"] = theirs / seconds;
}

// One matrix of each expert, with as many tokens as one step has. of_peak as
// for prefill; GB/s of the matrices that are chosen.
struct ExpertShape {
  int experts, choices;
  Shape matrix;
};
constexpr ExpertShape kGlm47Flash = {64, 4, {1536, 2048}};
constexpr ExpertShape kTiny = {8, 2, {64, 128}};

void experts(benchmark::State& state, const ExpertShape& s, int tokens) {
  use_threads(state);
  const auto flat =
      random_weights({s.experts * s.matrix.rows, s.matrix.columns}, 4, 64);
  const auto stacked = [&](const array& a) {
    array parts = mx::reshape(a, {s.experts, s.matrix.rows, a.shape(1)});
    mx::eval(parts);
    return parts;
  };
  const kernels::QuantizedExperts w{stacked(flat.words), stacked(flat.scales),
                                    stacked(flat.biases), 64, 4};
  array x = mx::random::normal({tokens, s.matrix.columns}, mx::float32);
  // The choices of a token differ, as in a model.
  const array order =
      mx::argsort(mx::random::normal({tokens, s.experts}, mx::float32), -1);
  array ids =
      mx::slice(mx::astype(order, mx::int32), {0, 0}, {tokens, s.choices});
  mx::eval(x, ids);
  double seconds = 0, theirs = 0;
  for (auto _ : state) {
    seconds =
        best_seconds(30, [&] { mx::eval(kernels::expert_matmul(x, w, ids)); });
    theirs = best_seconds(
        1, [&] { mx::eval(kernels::plain::expert_matmul(x, w, ids)); });
    state.SetIterationTime(seconds);
  }
  const double flops =
      2.0 * tokens * s.choices * s.matrix.rows * s.matrix.columns / seconds;
  const int chosen = std::min(s.experts, tokens * s.choices);
  state.counters["GB/s"] =
      weight_bytes(flat) * chosen / s.experts / seconds * 1e-9;
  state.counters["of_peak"] = flops / peak();
  state.counters["mlx"] = theirs / seconds;
}

// A layer of the gated delta rule: `tokens` of one sequence. of_peak: of the
// four operations that each number of state takes.
void delta(benchmark::State& state, int heads, int dim, int tokens) {
  use_threads(state);
  const int row = heads * dim;
  const auto random = [&](int columns) {
    array a = mx::random::normal({tokens, columns}, mx::float32);
    mx::eval(a);
    return a;
  };
  array decay = mx::negative(mx::abs(random(row)));
  array pool = mx::zeros({2, row * dim});
  mx::eval(decay, pool);
  const auto unit = [&] {
    array a = kernels::l2_norm(random(row), dim, 1e-6f, 1.0f);
    mx::eval(a);
    return a;
  };
  const kernels::DeltaInputs in = {unit(), unit(), random(row), decay,
                                   random(heads)};
  auto batch = std::make_shared<kernels::RaggedBatch>();
  kernels::RaggedSpan span;
  span.row_count = batch->tokens = tokens;
  span.slot_from = 0;
  span.slot_to = 1;
  batch->spans.push_back(span);
  double seconds = 0;
  for (auto _ : state) {
    seconds = best_seconds(30, [&] {
      mx::eval(kernels::gated_delta(in, pool, batch, {heads, dim, dim}).rows);
    });
    state.SetIterationTime(seconds);
  }
  const double numbers = static_cast<double>(row) * dim;
  state.counters["us/token"] = seconds * 1e6 / tokens;
  state.counters["GB/s"] = 8.0 * numbers / seconds * 1e-9;
  state.counters["of_peak"] = 8.0 * numbers * tokens / seconds / peak();
}

// The hand-over alone: what a loop costs whose bodies do nothing.
void empty_loop(benchmark::State& state) {
  use_threads(state);
  for (auto _ : state) cpu::parallel_for(8, [](int) {});
}

void peak_line(benchmark::State& state) {
  use_threads(state);
  double flops = 0;
  for (auto _ : state) flops = peak();
  state.counters["GFLOP/s"] = flops * 1e-9;
}

template <typename F>
void add(const std::string& name, F f) {
  auto* b = benchmark::RegisterBenchmark(name.c_str(), f)
                ->ArgName("threads")
                ->Arg(1)
                ->Iterations(1)
                ->UseManualTime()
                ->Unit(benchmark::kMillisecond);
  if (cpu::thread_count() > 1) b->Arg(cpu::thread_count());
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("isa", std::string(isa_name(cpu::current_isa())));
  benchmark::RegisterBenchmark("Loop", empty_loop)
      ->ArgName("threads")
      ->Arg(cpu::thread_count());
  add("Peak", [](benchmark::State& s) {
    peak_line(s);
    s.SetIterationTime(0);
  });
  for (const Shape s :
       {Shape{576, 576}, Shape{192, 576}, Shape{1536, 576}, Shape{576, 1536}})
    add("Prefill/4bit/" + std::to_string(s.rows) + "x" +
            std::to_string(s.columns),
        [s](benchmark::State& state) { prefill(state, s, 4, mx::float32); });
  add("Prefill/8bit/bfloat16/1536x576", [](benchmark::State& state) {
    prefill(state, {1536, 576}, 8, mx::bfloat16);
  });
  for (int rows : {1, 4, 8})
    add("Decode/4bit/rows:" + std::to_string(rows),
        [rows](benchmark::State& state) {
          decode(state, rows, 4, mx::float32);
        });
  for (int bits : {2, 3, 5, 6, 8})
    add("Decode/" + std::to_string(bits) + "bit/rows:1",
        [bits](benchmark::State& state) {
          decode(state, 1, bits, mx::float32);
        });
  for (int tokens : {1, 8, 512}) {
    add("Experts/GLM-4.7-Flash/tokens:" + std::to_string(tokens),
        [tokens](benchmark::State& state) {
          experts(state, kGlm47Flash, tokens);
        });
    add("Experts/tiny/tokens:" + std::to_string(tokens),
        [tokens](benchmark::State& state) { experts(state, kTiny, tokens); });
  }
  for (int tokens : {1, 64, 512})
    add("Delta/64x128x128/tokens:" + std::to_string(tokens),
        [tokens](benchmark::State& state) { delta(state, 64, 128, tokens); });
  benchmark::RunSpecifiedBenchmarks();
}
