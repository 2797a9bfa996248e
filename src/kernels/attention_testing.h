// Sequences of any kind of attention with their state in pools, for tests.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace reprise::kernels::test_support {

struct AttentionKind {
  std::string name;
  AttentionShape shape;
  std::vector<int> key_parts;  // dims of a head; they add up to head_dim
  bool latent = false;         // the values are the first part of the keys
  mlx::core::Dtype dtype = mlx::core::float32;
  std::optional<RowCodec> codec = std::nullopt;
  int quantized_from = 0;
  bool sinks = false;

  // For the name of a parametrized test.
  friend std::ostream& operator<<(std::ostream& out, const AttentionKind& k) {
    return out << k.name;
  }
  int q_row() const { return shape.heads * shape.head_dim; }
  int out_row() const { return shape.heads * shape.values(); }
};

// All queries and rows of one sequence, in values that its dtype can hold, and
// blocks in an order that is not the identity, with foreign blocks between.
class AttentionSequence {
 public:
  AttentionSequence(const AttentionKind& kind, int length, std::uint64_t seed,
                    int first_block = 1);

  // Attention of rows [start, start + count), in a step that appends these
  // rows to state whose other rows are not numbers: what lies behind the
  // window, in blocks that are gone where possible, and what lies ahead.
  mlx::core::array attend(int start, int count) const;
  // The same by the plain composition.
  mlx::core::array attend_plain(int start, int count) const;

  // A row in double precision, and by how much float32 arithmetic in any
  // order may differ from it.
  struct Exact {
    std::vector<double> out, bound;
  };
  Exact exact_row(int position) const;
  // Over these positions instead of those before it.
  Exact exact_over(int position, const std::vector<int>& positions) const;

  const AttentionKind& kind() const { return kind_; }
  int length() const { return length_; }

  // For steps of several sequences over the same pools.
  struct State {
    std::vector<StateRows> keys;
    std::vector<StateRows> values;  // empty: keys[0]
    const StateRows& value_rows() const {
      return values.empty() ? keys[0] : values[0];
    }
  };
  State empty_state(int blocks) const;
  // Appends rows [start, start + count).
  State append_to(const State& state, int start, int count) const;
  mlx::core::array queries(int start, int count) const;
  std::optional<mlx::core::array> sinks() const;
  std::vector<std::int32_t> table(int start) const;
  int blocks_end() const;

 private:
  // Rows of a family, and what is read of them once they are stored.
  struct Family {
    int dim = 0;
    std::vector<float> rows, stored;
  };
  Family make_family(int dim, std::uint64_t seed) const;
  mlx::core::array rows_of(const Family& family, int start, int count) const;
  StateRows empty_rows(const Family& family, int blocks) const;
  int first_needed(int start) const;
  State state_of(int start, int count) const;
  const Family& value_family() const { return families_.back(); }

  AttentionKind kind_;
  int length_;
  std::vector<float> q_, sinks_;
  std::vector<Family> families_;  // parts of keys; values, unless latent
  std::vector<std::int32_t> blocks_;
};

}  // namespace reprise::kernels::test_support
