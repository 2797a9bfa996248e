// Pieces of the plain compositions of attention.
#pragma once

#include <optional>
#include <vector>

#include "kernels/attention.h"

namespace reprise::kernels::plain {

// Whether the query of a row may look: bool [rows, positions].
array visible_mask(const RaggedSpan& span, int positions, int window);

// The rows of one span, over the positions that a mask [rows, positions] of
// all its blocks allows.
array attend_span(const array& q, const std::vector<StateRows>& keys,
                  const StateRows& values, const RaggedSpan& span,
                  const AttentionShape& shape, const array& mask,
                  const std::optional<array>& sinks);

}  // namespace reprise::kernels::plain
