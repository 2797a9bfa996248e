#include "gguf_text.h"

#include <fmt/format.h>

#include <utility>

namespace reprise {
namespace {

TokenId token_at(const GgufFile& file, const char* key) {
  return static_cast<TokenId>(file.integer(key).value_or(-1));
}

std::string token_text(const GgufVocabulary& vocabulary, TokenId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.tokens.size())
    return "";
  return vocabulary.tokens[id];
}

}  // namespace

Result<GgufVocabulary> gguf_vocabulary(const GgufFile& file) {
  const auto* tokens = file.strings("tokenizer.ggml.tokens");
  const auto types = file.integers("tokenizer.ggml.token_type");
  const auto* model = file.string("tokenizer.ggml.model");
  if (!tokens || !types || !model || types->size() != tokens->size())
    return Error{
        ErrorKind::corrupt,
        fmt::format(
            "'{}' has no complete vocabulary: tokenizer.ggml.model, .tokens "
            "and .token_type must be there, the last two of one length",
            file.path())};
  GgufVocabulary vocabulary;
  vocabulary.model = *model;
  if (const auto* pre = file.string("tokenizer.ggml.pre"))
    vocabulary.pre = *pre;
  vocabulary.tokens = *tokens;
  vocabulary.types.assign(types->begin(), types->end());
  if (const auto* merges = file.strings("tokenizer.ggml.merges"))
    vocabulary.merges = *merges;
  vocabulary.add_bos =
      file.boolean("tokenizer.ggml.add_bos_token").value_or(false);
  vocabulary.bos = token_at(file, "tokenizer.ggml.bos_token_id");
  vocabulary.eos = token_at(file, "tokenizer.ggml.eos_token_id");
  return vocabulary;
}

Result<TextModel> load_gguf_text(const std::string& path) {
  const auto file = GgufFile::open(path);
  if (!file) return file.error();
  const auto vocabulary = gguf_vocabulary(*file);
  if (!vocabulary) return vocabulary.error();
  auto tokenizer = Tokenizer::from_gguf(*vocabulary);
  if (!tokenizer) return tokenizer.error();

  TextModel model;
  model.tokenizer = *tokenizer;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id"})
    model.add_end_token(token_at(*file, key));
  const auto* source = file->string("tokenizer.chat_template");
  if (!source) return model;
  auto specials = nlohmann::json::object();
  specials["bos_token"] = token_text(*vocabulary, vocabulary->bos);
  specials["eos_token"] = token_text(*vocabulary, vocabulary->eos);
  auto compiled = ChatTemplate::compile(*source, specials);
  if (!compiled) return compiled.error();
  model.chat_template = *compiled;
  return model;
}

}  // namespace reprise
