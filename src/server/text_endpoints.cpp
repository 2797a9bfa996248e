#include "server/text_endpoints.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "api/apply_template.h"
#include "api/detokenize.h"
#include "api/fields.h"
#include "api/json_body.h"
#include "api/tokenize.h"
#include "server/prepare.h"

namespace reprise {

namespace {

using Ids = std::vector<TokenId>;

// A text whose special tokens stay text is tokenized in one piece, and what
// that costs grows with its size.
constexpr std::size_t kPlainBytesMax = std::size_t{1} << 20;

// A Result cannot be made from JSON, which converts from nearly everything.
Result<Json> made(Json json) {
  return {boost::system::in_place_value, std::move(json)};
}

Result<ChatTemplate::RenderedChat> render(const Json& body,
                                          const ModelServices& model) {
  const auto calls = parse_generation_prompt(body);
  if (!calls) return calls.error();
  Json chat = body;
  chat.erase("add_generation_prompt");
  auto rendered = render_chat(chat, *calls, model);
  if (!rendered) return rendered.error();
  return std::move(rendered->prompt);
}

Result<Ids> encode(const TokenizeRequest& request, const ModelServices& model) {
  const auto& tokenizer = *model.tokenizer;
  Result<Ids> ids = Ids();
  if (request.parse_special) {
    ids = tokenizer.encode_prompt(request.text, model.context_tokens);
  } else if (request.text.size() > kPlainBytesMax) {
    return Error{ErrorKind::too_large,
                 fmt::format("The text has {} bytes; with parse_special false "
                             "at most {} are tokenized at once. Send it in "
                             "pieces.",
                             request.text.size(), kPlainBytesMax),
                 "content"};
  } else {
    ids = tokenizer.encode(request.text, Tokenizer::Specials::text);
  }
  if (ids && request.add_special) tokenizer.begin_prompt(*ids);
  return ids;
}

Result<Json> tokenize(const Json& body, const ModelServices& model) {
  const auto request = parse_tokenize_request(body);
  if (!request) return request.error();
  Ids ids;
  if (request->is_chat) {
    auto rendered = render(body, model);
    if (!rendered) return rendered.error();
    ids = std::move(rendered->ids);
  } else {
    auto encoded = encode(*request, model);
    if (!encoded) return encoded.error();
    ids = std::move(*encoded);
  }
  const auto bytes_of = [&](TokenId id) {
    return model.tokenizer->token_bytes(id);
  };
  return made(tokenize_reply(*request, ids, model.context_tokens, bytes_of));
}

Result<Json> detokenize(const Json& body, const ModelServices& model) {
  const auto ids = parse_detokenize_request(body, model.tokenizer->size());
  if (!ids) return ids.error();
  const auto text = model.tokenizer->decode(*ids, /*skip_specials=*/false);
  if (!text) return text.error();
  return made(detokenize_reply(*text));
}

Result<Json> apply_template(const Json& body, const ModelServices& model) {
  const auto rendered = render(body, model);
  if (!rendered) return rendered.error();
  return made(apply_template_reply(rendered->text));
}

}  // namespace

Result<Json> answer_text(Endpoint endpoint, std::string_view body,
                         const ModelServices& model) {
  const auto json = parse_json_object(body);
  if (!json) return json.error();
  const auto known = check_model(*json, model);
  if (!known) return known.error();
  if (endpoint == Endpoint::tokenize) return tokenize(*json, model);
  if (endpoint == Endpoint::detokenize) return detokenize(*json, model);
  return apply_template(*json, model);
}

}  // namespace reprise
