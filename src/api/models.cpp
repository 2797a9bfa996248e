#include "api/models.h"

namespace reprise {

Json model_json(const ModelCard& card) {
  return {
      {"id", card.id},
      {"object", "model"},
      {"created", card.created},
      {"owned_by", "reprise"},
      {"max_model_len", card.context_tokens},
      {"meta", {{"n_ctx", card.context_tokens}, {"n_vocab", card.vocabulary}}}};
}

Json model_list_json(const ModelCard& card) {
  return {{"object", "list"}, {"data", Json::array({model_json(card)})}};
}

}  // namespace reprise
