// The kernels of route_task.h, compiled once for every instruction set by
// route_<set>.cpp.
#pragma once

#include "kernels/cpu/route_task.h"
#include "kernels/cpu/vec16.h"
#include "kernels/cpu/vec16_activation.h"
#include "kernels/cpu/weight_rows.h"

namespace reprise::kernels::cpu::REPRISE_ISA {

// `count` elements of any type as float32, zeros behind them up to a multiple
// of 16.
inline void widen_any(const char* data, ElementType type, int count,
                      float* out) {
  with_elements(data, type, [&](auto* p) { widen(p, 0, count, out); });
}

inline void sigmoid_scores(float* scores, int padded) {
  for (int i = 0; i < padded; i += 16)
    store(scores + i, sigmoid(load(scores + i)));
}

inline void softmax_scores(float* scores, int count, int padded) {
  constexpr float kNone = -__builtin_inff();
  for (int i = count; i < padded; ++i) scores[i] = kNone;
  Vec16 most = broadcast(kNone);
  for (int i = 0; i < padded; i += 16) most = max(most, load(scores + i));
  const Vec16 largest = broadcast(lane_max(most));
  // e^x is never quite 0, so what stands behind the experts is left out.
  for (int i = 0; i < padded; i += 16)
    store(scores + i, exp(sub(load(scores + i), largest)));
  for (int i = count; i < padded; ++i) scores[i] = 0.0f;
  Vec16 total = zeros();
  for (int i = 0; i < padded; i += 16) total = add(total, load(scores + i));
  const Vec16 sums = broadcast(sum(total));
  for (int i = 0; i < padded; i += 16)
    store(scores + i, div(load(scores + i), sums));
}

// The index of the largest of values[begin, end), of equal ones the first.
// NaN stands for what is not to be taken; -1 if there is nothing else.
inline int largest_of(const float* values, int begin, int end) {
  int best = -1;
  for (int i = begin; i < end; ++i)
    if (values[i] == values[i] && (best < 0 || values[i] > values[best]))
      best = i;
  return best;
}

constexpr float kTaken = __builtin_nanf("");

// Marks the experts of all but the best groups as taken.
inline void keep_groups(const RouteTask& task, float* choice, float* groups) {
  const int size = task.experts / task.groups;
  for (int g = 0; g < task.groups; ++g) {
    const int begin = g * size, end = begin + size;
    const int best = largest_of(choice, begin, end);
    const float first = choice[best];
    choice[best] = kTaken;
    const int next = largest_of(choice, begin, end);
    groups[g] = next < 0 ? first : first + choice[next];
    choice[best] = first;
  }
  for (int kept = 0; kept < task.groups_kept; ++kept)
    groups[largest_of(groups, 0, task.groups)] = kTaken;
  for (int g = 0; g < task.groups; ++g)
    if (groups[g] == groups[g])
      for (int i = 0; i < size; ++i) choice[g * size + i] = kTaken;
}

inline void weigh(const RouteTask& task, const float* scores,
                  const std::int32_t* ids, float* weights) {
  float total = 0.0f;
  for (int j = 0; j < task.top_k; ++j) {
    weights[j] = scores[ids[j]];
    total += weights[j];
  }
  for (int j = 0; j < task.top_k; ++j) {
    if (task.normalize) weights[j] /= total + 1e-20f;
    weights[j] *= task.scale;
  }
}

void route_rows(const RouteTask& task, int begin, int end, float* scratch) {
  const int count = task.experts, padded = (count + 15) / 16 * 16;
  float* scores = scratch;
  float* choice = scores + padded;
  float* groups = choice + padded;
  for (int row = begin; row < end; ++row) {
    widen_any(task.logits + row * task.row_bytes, task.type, count, scores);
    if (task.sigmoid)
      sigmoid_scores(scores, padded);
    else
      softmax_scores(scores, count, padded);
    if (task.bias.data == nullptr)
      for (int i = 0; i < padded; ++i) choice[i] = 0.0f;
    else
      widen_any(task.bias.data, task.bias.type, count, choice);
    for (int i = 0; i < count; ++i) {
      choice[i] += scores[i];
      if (choice[i] != choice[i]) choice[i] = -__builtin_inff();
    }
    if (task.groups > task.groups_kept) keep_groups(task, choice, groups);
    std::int32_t* ids = task.ids + std::int64_t{row} * task.top_k;
    float* weights = task.weights + std::int64_t{row} * task.top_k;
    for (int j = 0; j < task.top_k; ++j) {
      ids[j] = largest_of(choice, 0, count);
      choice[ids[j]] = kTaken;
    }
    weigh(task, scores, ids, weights);
    if (task.expert_scale.data == nullptr) continue;
    widen_any(task.expert_scale.data, task.expert_scale.type, count, choice);
    for (int j = 0; j < task.top_k; ++j) weights[j] *= choice[ids[j]];
  }
}

}  // namespace reprise::kernels::cpu::REPRISE_ISA
