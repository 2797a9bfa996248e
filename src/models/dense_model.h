// The Model of every architecture that is a DenseDecoder.
#pragma once

#include <memory>
#include <utility>

#include "layers/dense_decoder.h"
#include "models/model.h"

namespace reprise {

class DenseModel : public Model {
 public:
  explicit DenseModel(DenseDecoder decoder) : decoder_(std::move(decoder)) {}

  ModelShape shape() const override {
    const DecoderConfig& c = decoder_.config;
    return {c.vocabulary, c.context, c.layers};
  }

  StateLayout state_layout() const override {
    return reprise::state_layout(decoder_);
  }

  mlx::core::array forward(const StepInput& in,
                           const BlockPools& pools) const override {
    return dense_forward(decoder_, in.token_ids, in.logits_rows, in.batch,
                         pools);
  }

 private:
  const DenseDecoder decoder_;
};

}  // namespace reprise
