#include "engine/fake_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/mix.h"
#include "sampling/sampler.h"

namespace reprise {
namespace {

std::uint64_t hash_of(std::span<const TokenId> tokens) {
  std::uint64_t hash = 0;
  for (const TokenId token : tokens)
    hash = mix64(hash ^ static_cast<std::uint64_t>(token + 1));
  return hash;
}

template <typename... Args>
void promise(bool kept, fmt::format_string<Args...> format, Args&&... args) {
  if (!kept)
    throw FakeRunnerLie(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

FakeRunner::FakeRunner(FakeRunnerOptions options)
    : options_(std::move(options)),
      pool_(static_cast<std::size_t>(options_.block_count) * kBlockTokens),
      slots_(static_cast<std::size_t>(options_.slot_count)) {}

RunnerInfo FakeRunner::info() const {
  return {.vocabulary = options_.vocabulary,
          .context_tokens = options_.context_tokens,
          .block_count = options_.block_count,
          .block_bytes = kBlockTokens * sizeof(PoolRow),
          .slot_count = options_.slot_count,
          .slot_bytes = options_.slot_count > 0 ? sizeof(Slot) : 0,
          .device = "cpu",
          .dtype = "float32"};
}

void FakeRunner::expect(RequestId id, std::vector<TokenId> prompt) {
  known_[id] = std::move(prompt);
}

std::vector<float> FakeRunner::logits_after(std::span<const TokenId> history,
                                            int vocabulary) {
  std::uint64_t hash = hash_of(history);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (auto& logit : logits) {
    hash = mix64(hash);
    logit = static_cast<float>(hash >> 40) * 0x1.0p-21f;
  }
  return logits;
}

std::vector<TokenId> FakeRunner::reply_alone(const Request& request,
                                             int vocabulary) {
  auto history = request.prompt;
  std::vector<TokenId> reply;
  const std::set<TokenId> stops(request.stop_tokens.begin(),
                                request.stop_tokens.end());
  while (static_cast<int>(reply.size()) < request.max_tokens) {
    const auto logits = logits_after(history, vocabulary);
    SampleInput input{
        .logits = logits, .prompt = request.prompt, .reply = reply};
    if (static_cast<int>(reply.size()) < request.min_tokens)
      input.banned = request.stop_tokens;
    reply.push_back(sample(input, request.sampling));
    if (stops.contains(reply.back())) break;
    history.push_back(reply.back());
  }
  return reply;
}

FakeRunner::PoolRow& FakeRunner::at(const std::vector<BlockId>& blocks,
                                    int position) {
  return pool_[static_cast<std::size_t>(blocks[position / kBlockTokens] *
                                            kBlockTokens +
                                        position % kBlockTokens)];
}

// The plan's own form, and that no block is written by one row and read or
// written by another.
void FakeRunner::check_plan(const StepPlan& plan) const {
  promise(!plan.rows.empty(), "a plan without rows");
  std::set<RequestId> ids;
  std::map<BlockId, RequestId> writers;
  for (const auto& row : plan.rows) {
    promise(ids.insert(row.id).second, "two rows of request {}", row.id);
    promise(!row.tokens.empty(), "no tokens for request {}", row.id);
    const int end = row.start + static_cast<int>(row.tokens.size());
    const int blocks = blocks_for(end);
    promise(static_cast<int>(row.blocks.size()) >= blocks,
            "request {}: {} blocks for {} rows", row.id, row.blocks.size(),
            end);
    for (const BlockId id : row.blocks)
      promise(id >= 0 && id < options_.block_count, "block {}", id);
    for (int i = row.start / kBlockTokens; i < blocks; ++i) {
      const auto [at, first] = writers.emplace(row.blocks[i], row.id);
      promise(first, "block {} is written by {} and {}", row.blocks[i],
              at->second, row.id);
    }
  }
  for (const auto& row : plan.rows)
    for (int i = 0; i < row.start / kBlockTokens; ++i)
      promise(!writers.contains(row.blocks[i]),
              "block {} is read by {} and written", row.blocks[i], row.id);
  for (const auto& copy : plan.copies)
    promise(!writers.contains(copy.from), "block {} is copied and written",
            copy.from);
}

// No slot is written that another row reads or writes.
void FakeRunner::check_slots(const StepPlan& plan) const {
  std::set<SlotId> read, written;
  for (const auto& row : plan.rows) {
    if (options_.slot_count == 0) {
      promise(row.slot_from == kNoSlot && row.slot_to == kNoSlot,
              "request {} has slots", row.id);
      continue;
    }
    promise(row.slot_to >= 0 && row.slot_to < options_.slot_count,
            "request {} writes slot {}", row.id, row.slot_to);
    promise(written.insert(row.slot_to).second, "two rows write slot {}",
            row.slot_to);
    promise((row.slot_from == kNoSlot) == (row.start == 0),
            "request {} starts at {} from slot {}", row.id, row.start,
            row.slot_from);
    if (row.slot_from != kNoSlot) read.insert(row.slot_from);
  }
  for (const SlotId id : written)
    promise(!read.contains(id), "slot {} is read and written", id);
}

void FakeRunner::read_slot(const StepRow& row,
                           std::span<const TokenId> history) const {
  if (row.slot_from == kNoSlot) return;
  const Slot& slot = slots_.at(static_cast<std::size_t>(row.slot_from));
  promise(slot.length == row.start, "request {} starts at {}, slot {} at {}",
          row.id, row.start, row.slot_from, slot.length);
  promise(slot.history ==
              hash_of(history.first(static_cast<std::size_t>(row.start))),
          "request {}: slot {} is of other tokens", row.id, row.slot_from);
}

void FakeRunner::copy_rows(const BlockCopy& copy) {
  promise(copy.rows > 0 && copy.rows <= kBlockTokens && copy.from != copy.to,
          "a copy of {} rows from {} to {}", copy.rows, copy.from, copy.to);
  const auto from = static_cast<std::ptrdiff_t>(copy.from) * kBlockTokens;
  const auto to = static_cast<std::ptrdiff_t>(copy.to) * kBlockTokens;
  std::copy_n(pool_.begin() + from, copy.rows, pool_.begin() + to);
  rows_copied_ += static_cast<std::size_t>(copy.rows);
  auto& poisoned = options_.poisoned_blocks;
  if (poisoned.contains(copy.from))
    poisoned.insert(copy.to);
  else
    poisoned.erase(copy.to);
}

void FakeRunner::poison_from(const StepRow& row, int position) {
  const int end = static_cast<int>(row.blocks.size()) * kBlockTokens;
  for (int p = position; p < end; ++p) at(row.blocks, p) = {};
}

std::vector<TokenId> FakeRunner::read_history(const StepRow& row) {
  std::vector<TokenId> history;
  auto& known = known_[row.id];
  for (int p = 0; p < row.start; ++p) {
    const PoolRow& found = at(row.blocks, p);
    promise(found.position == p, "request {}: position {} holds {}", row.id, p,
            found.position);
    promise(
        static_cast<std::size_t>(p) >= known.size() || known[p] == found.token,
        "request {}: position {} holds token {}", row.id, p, found.token);
    history.push_back(found.token);
  }
  history.insert(history.end(), row.tokens.begin(), row.tokens.end());
  for (std::size_t p = 0; p < std::min(history.size(), known.size()); ++p)
    promise(history[p] == known[p], "request {}: token {} at {} was {}", row.id,
            history[p], p, known[p]);
  if (history.size() > known.size()) known = history;
  return history;
}

bool FakeRunner::reads_poison(const StepRow& row) const {
  return std::any_of(row.blocks.begin(), row.blocks.end(), [&](BlockId id) {
    return options_.poisoned_blocks.contains(id);
  });
}

void FakeRunner::write(const StepRow& row) {
  int position = row.start;
  // A block from its first row on is a new one.
  for (std::size_t i = 0; i < row.blocks.size(); ++i)
    if (static_cast<int>(i) * kBlockTokens >= row.start)
      options_.poisoned_blocks.erase(row.blocks[i]);
  for (const TokenId token : row.tokens) {
    at(row.blocks, position) = {.token = token, .position = position};
    ++position;
  }
}

StepLogits FakeRunner::run(const StepPlan& plan) {
  check_plan(plan);
  check_slots(plan);
  if (options_.latency.count() > 0)
    std::this_thread::sleep_for(options_.latency);
  if (options_.during_step) options_.during_step();
  for (const auto& row : plan.rows) {
    poison_from(row, row.start);
    if (row.slot_to != kNoSlot) slots_[row.slot_to] = {};
  }
  for (const auto& copy : plan.copies) copy_rows(copy);
  for (const auto& row : plan.rows) write(row);

  StepLogits logits{.vocabulary = options_.vocabulary, .values = {}};
  try {
    for (const auto& row : plan.rows) {
      const auto history = read_history(row);
      read_slot(row, history);
      if (options_.throws_at_row && options_.throws_at_row(row))
        throw std::runtime_error("[fake] this row cannot be computed");
      for (int i = row.logits_wanted - 1; i >= 0; --i) {
        const auto known = std::span(history).first(history.size() - i);
        auto values = options_.logits_of
                          ? options_.logits_of(known)
                          : logits_after(known, options_.vocabulary);
        if (reads_poison(row) ||
            (options_.nan_logits && options_.nan_logits(row)))
          values[0] = std::numeric_limits<float>::quiet_NaN();
        logits.values.insert(logits.values.end(), values.begin(), values.end());
      }
    }
    if (options_.throws_at_step && options_.throws_at_step(plan))
      throw std::runtime_error("[fake] this step cannot be computed");
  } catch (const std::exception&) {
    for (const auto& row : plan.rows) poison_from(row, row.start);
    throw;
  }
  for (const auto& row : plan.rows) {
    tokens_evaluated_ += row.tokens.size();
    if (row.slot_to == kNoSlot) continue;
    const auto history = read_history(row);
    slots_[row.slot_to] = {.length = static_cast<int>(history.size()),
                           .history = hash_of(history)};
  }
  return logits;
}

}  // namespace reprise
