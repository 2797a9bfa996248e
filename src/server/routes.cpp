#include "server/routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "api/errors.h"
#include "api/models.h"

namespace reprise {

namespace {

constexpr char kModelPrefix[] = "/v1/models/";

HttpReply json_reply(int status, const Json& body) {
  return {.status = status, .body = dump(body)};
}

HttpReply health(const HttpRequest&, Service& service) {
  const auto status = service.engine_status();
  if (!unavailable_reason(status)) return json_reply(200, {{"status", "ok"}});
  auto body = Json{{"status", "loading"}};
  if (status && status->health == EngineHealth::failed)
    body = {{"status", "failed"}, {"error", status->failure}};
  if (status && status->health == EngineHealth::stuck)
    body = {{"status", "stuck"},
            {"since_seconds", status->seconds_since_heartbeat}};
  auto reply = json_reply(503, body);
  reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

HttpReply metrics(const HttpRequest&, Service& service) {
  return {.body = service.metrics_page(),
          .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

Error loading_error() {
  return *unavailable_reason(std::nullopt);
}

ModelCard card_of(const LoadedModel& model) {
  const auto& s = model.services;
  return {s.id, s.created, s.context_tokens, s.vocabulary};
}

HttpReply models(const HttpRequest&, Service& service) {
  const auto model = service.model();
  if (!model) return error_reply(loading_error());
  return json_reply(200, model_list_json(card_of(*model)));
}

HttpReply one_model(const HttpRequest& request, Service& service) {
  const auto model = service.model();
  if (!model) return error_reply(loading_error());
  const auto id = request.path.substr(sizeof(kModelPrefix) - 1);
  if (id != model->services.id)
    return error_reply(
        Error{ErrorKind::not_found,
              fmt::format("The model '{}' does not exist here: '{}' is loaded.",
                          id.substr(0, 128), model->services.id),
              "model", "model_not_found"});
  return json_reply(200, model_json(card_of(*model)));
}

HttpReply about(const HttpRequest&, Service& service);

struct Served {
  const char* path;
  const char* method;                                 // GET or POST
  HttpReply (*answer)(const HttpRequest&, Service&);  // null: generates
  Endpoint endpoint = Endpoint::chat;
};

const std::vector<Served>& served_paths() {
  static const std::vector<Served> kServed = {
      {"/", "GET", about},
      {"/health", "GET", health},
      {"/metrics", "GET", metrics},
      {"/v1/models", "GET", models},
      {"/v1/models/{id}", "GET", one_model},
      {"/v1/chat/completions", "POST", nullptr, Endpoint::chat},
      {"/v1/completions", "POST", nullptr, Endpoint::completions},
      {"/tokenize", "POST", nullptr, Endpoint::tokenize},
      {"/detokenize", "POST", nullptr, Endpoint::detokenize},
      {"/apply-template", "POST", nullptr, Endpoint::apply_template}};
  return kServed;
}

std::vector<std::string> served_lines() {
  std::vector<std::string> out;
  for (const auto& served : served_paths())
    out.push_back(fmt::format("{} {}", served.method, served.path));
  return out;
}

HttpReply about(const HttpRequest&, Service& service) {
  return json_reply(200, {{"name", "reprise"},
                          {"version", service.options().version},
                          {"endpoints", served_lines()}});
}

const Served* find_served(std::string_view path) {
  for (const auto& served : served_paths())
    if (path == served.path) return &served;
  if (path.starts_with(kModelPrefix) && path.size() >= sizeof(kModelPrefix))
    return find_served("/v1/models/{id}");
  return nullptr;
}

std::string allowed_methods(const Served& served) {
  return std::string_view(served.method) == "GET" ? "GET, HEAD, OPTIONS"
                                                  : "POST, OPTIONS";
}

HttpReply not_found(const HttpRequest& request) {
  return error_reply(
      Error{ErrorKind::not_found,
            fmt::format("There is no {}. Served: {}.", shown(request.path),
                        fmt::join(served_lines(), ", ")),
            "", "unknown_path"});
}

HttpReply options_of(const Served& served) {
  return {.status = 204, .headers = {{"Allow", allowed_methods(served)}}};
}

HttpReply wrong_method(const HttpRequest& request, const Served& served) {
  auto reply = error_reply(
      405, Error{ErrorKind::invalid,
                 fmt::format("{} does not take {}: use {}.", served.path,
                             request.method.substr(0, 32), served.method)});
  reply.headers.emplace_back("Allow", allowed_methods(served));
  return reply;
}

}  // namespace

std::optional<Error> unavailable_reason(
    const std::optional<EngineStatus>& status) {
  const auto reason = [](std::string text) {
    return Error{ErrorKind::unavailable, std::move(text)};
  };
  if (!status || status->health == EngineHealth::loading)
    return reason("The model is loading. Try again in a moment.");
  if (status->health == EngineHealth::failed)
    return reason(
        fmt::format("The model could not be loaded: {}", status->failure));
  if (status->health == EngineHealth::stuck)
    return reason(fmt::format("The engine has not moved for {:.0f} s.",
                              status->seconds_since_heartbeat));
  return std::nullopt;
}

Route find_route(const HttpRequest& request, Service& service) {
  const auto* served = find_served(request.path);
  if (!served) return {not_found(request), "other"};
  const std::string name = served->path;
  if (request.method == "OPTIONS") return {options_of(*served), name};
  const bool head =
      request.method == "HEAD" && std::string_view(served->method) == "GET";
  if (!head && request.method != served->method)
    return {wrong_method(request, *served), name};
  if (served->answer) return {served->answer(request, service), name};
  return {served->endpoint, name};
}

}  // namespace reprise
