// What a Scheduler holds. For the sources of this folder only: planning is in
// scheduler_plan.cpp, what becomes of a step in scheduler.cpp.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "scheduler/block_books.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace reprise {

struct Scheduler::State {
  explicit State(const SchedulerLimits& limits);

  struct Wanted {
    Sequence* sequence = nullptr;
    int end = 0;
  };
  struct PlannedRow {
    Sequence* sequence = nullptr;
    int end = 0;
    Reservation reservation;
  };

  void admit();
  bool try_admit(Sequence& sequence);
  std::vector<Sequence*> front_of_queue() const;

  std::vector<Wanted> wanted_rows();
  std::vector<Wanted> isolated_row();
  void plan_row(const Wanted& wanted);
  void plan_somebody();
  Sequence* victim_for(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  void start_over(Sequence& sequence);
  void blame_cache(Sequence& sequence);
  StepPlan describe() const;
  int goal_of(const Sequence& sequence) const;

  void apply_row(PlannedRow& row, RowOutput output);
  void take_scores(Sequence& sequence, std::optional<PromptLogprobs> scores);
  void take_token(Sequence& sequence, SampledToken token);
  void finish(Sequence& sequence, Finish finish, BlockBooks::Leave how);
  void forget_isolation(const Sequence& sequence);
  SequencePtr take_running(const Sequence& sequence);
  Sequence* find_running(RequestId id) const;

  const SchedulerLimits limits;
  BlockBooks books;
  std::deque<SequencePtr> waiting;   // the next in front
  std::vector<SequencePtr> running;  // by age, the oldest first
  std::vector<PlannedRow> planned;   // between plan() and apply() or fail()
  std::deque<RequestId> isolated;    // still to be tried alone
  std::vector<RequestId> admitted;
  std::vector<Event> events;
  std::uint64_t next_age = 0;
  std::uint64_t prefill_turn = 0;
  SchedulerStatus counts;  // the sums; the books of the moment come fresh
};

}  // namespace reprise
