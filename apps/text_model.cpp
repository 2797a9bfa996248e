#include "text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "gguf_text.h"
#include "weights/json_text.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// An absent file reads as an empty object; a broken one is an error. (json
// converts from nearly everything, so the value is built in place.)
Result<json> read_json(const fs::path& path) {
  const auto text = read_file(path);
  const auto in_place = boost::system::in_place_value;
  if (!text) return {in_place, json::object()};
  json value = parse_json_text<json>(*text);
  if (value.is_discarded() || !value.is_object())
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' is not a JSON object", path.string())};
  return {in_place, std::move(value)};
}

// A special token stands in tokenizer_config.json as a string or an object.
std::string token_text(const json& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  return it->is_object() ? it->value("content", "") : "";
}

void add_end_tokens(TextModel& model, const json& config) {
  const auto it = config.find("eos_token_id");
  if (it == config.end()) return;
  for (const json& id : it->is_array() ? *it : json::array({*it}))
    if (id.is_number_integer()) model.add_end_token(id.get<TokenId>());
}

// chat_template.jinja, or a string or a list of {name, template} with one
// called "default" in tokenizer_config.json.
std::string template_source(const fs::path& folder, const json& config) {
  if (auto source = read_file(folder / "chat_template.jinja")) return *source;
  const auto it = config.find("chat_template");
  if (it == config.end()) return "";
  if (it->is_string()) return it->get<std::string>();
  if (!it->is_array()) return "";
  for (const json& entry : *it)
    if (entry.is_object() && entry.value("name", "") == "default")
      return entry.value("template", "");
  return "";
}

Result<void> set_template(TextModel& model, const std::string& source,
                          const json& specials) {
  if (source.empty()) return {};
  auto compiled = ChatTemplate::compile(source, specials);
  if (!compiled) return compiled.error();
  model.chat_template = *compiled;
  return {};
}

Result<TextModel> load_folder(const fs::path& folder) {
  TextModel model;
  auto tokenizer = Tokenizer::from_file((folder / "tokenizer.json").string());
  if (!tokenizer) return tokenizer.error();
  model.tokenizer = *tokenizer;
  const auto settings = read_json(folder / "tokenizer_config.json");
  if (!settings) return settings.error();
  for (const char* name : {"generation_config.json", "config.json"}) {
    const auto config = read_json(folder / name);
    if (!config) return config.error();
    add_end_tokens(model, *config);
  }
  json specials = json::object();
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token",
                          "sep_token", "cls_token", "mask_token"})
    if (const auto text = token_text(*settings, key); !text.empty())
      specials[key] = text;
  model.add_end_token(
      model.tokenizer->token_id(token_text(*settings, "eos_token")));
  const auto set =
      set_template(model, template_source(folder, *settings), specials);
  if (!set) return set.error();
  return model;
}

}  // namespace

void TextModel::add_end_token(TokenId id) {
  if (id >= 0 && id < tokenizer->size() &&
      std::find(end_tokens.begin(), end_tokens.end(), id) == end_tokens.end())
    end_tokens.push_back(id);
}

Result<TextModel> load_text_model(const std::string& path) {
  fs::path clean = fs::path(path).lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  std::error_code ignored;
  const bool folder = fs::is_directory(clean, ignored);
  auto model = folder ? load_folder(clean) : load_gguf_text(clean.string());
  if (!model) return model;
  model->id = folder ? clean.filename().string() : clean.stem().string();
  return model;
}

}  // namespace reprise
