// How keys, values and latents are stored, as people ask for it. This header
// does not show MLX.
#pragma once

namespace reprise {

struct KvQuantization {
  int bits = 0;         // 8 or 4; 0: as they are computed
  int group_size = 64;  // elements that share a scale and a bias
  // Rows of earlier positions stay as they are; rounded up to whole blocks.
  int start = 0;
};

}  // namespace reprise
