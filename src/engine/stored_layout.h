// A model's state as this process stores it.
#pragma once

#include <string>
#include <vector>

#include "cache/state_layout.h"
#include "engine/kv_quantization.h"

namespace reprise {

// The layout with what of it can be quantized quantized. Throws
// std::runtime_error with the flag's name for what is not served.
StateLayout stored_layout(StateLayout layout, const KvQuantization& kv);

// What of it attention reads and stays plain although the rest is quantized,
// each once and with the reason: "rope_key (row of 32 is no multiple of 64)".
std::vector<std::string> plain_parts(const StateLayout& layout,
                                     const KvQuantization& kv);

}  // namespace reprise
