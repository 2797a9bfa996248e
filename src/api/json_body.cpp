#include "api/json_body.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise {

namespace {

// The parser's own sentence without its prefix and without the text it quotes,
// which can be megabytes long and need not be UTF-8.
std::string reason_of(const std::string& what) {
  const auto from = what.find("] ");
  std::string reason = what.substr(from == std::string::npos ? 0 : from + 2);
  reason = reason.substr(0, reason.find("; last read"));
  reason = reason.substr(0, 160);
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  return reason;
}

// Builds the value as nlohmann's own handler does, but counts, refuses
// duplicate keys and stops at the first fault.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  const std::optional<std::string>& fault() const { return fault_; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& known = keys_.back();
    if (!known.insert(name).second) {
      const Json shown = name.substr(0, 64);
      return refuse(fmt::format(
          "the key {} stands twice in one object",
          shown.dump(-1, ' ', true, Json::error_handler_t::replace)));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return refuse(
        fmt::format("byte {}: {}", position, reason_of(error.what())));
  }

 private:
  bool refuse(std::string fault) {
    if (!fault_) fault_ = std::move(fault);
    return false;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array())
      return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    // The object's own ways to add a key search it first, from end to end; we
    // know already that the key is new.
    Json::object_t::Container& pairs = parent.get_ref<Json::object_t&>();
    return &pairs.emplace_back(std::move(key_), std::move(value)).second;
  }

  bool add(Json value) {
    if (++values_ > kJsonValuesMax)
      return refuse(fmt::format("more than {} values", kJsonValuesMax));
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= kJsonDepthMax)
      return refuse(fmt::format("arrays and objects nested deeper than {}",
                                kJsonDepthMax));
    if (++values_ > kJsonValuesMax)
      return refuse(fmt::format("more than {} values", kJsonValuesMax));
    // The address stays valid while the container is open: its parent gets no
    // further element before it is closed.
    open_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each in open_
  std::string key_;
  std::size_t values_ = 0;
  std::optional<std::string> fault_;
};

}  // namespace

Result<Json> parse_json_object(std::string_view text) {
  Builder builder;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed)
    return Error{
        ErrorKind::invalid,
        fmt::format(
            "The body is not JSON that can be read: {}. Send one JSON object.",
            builder.fault().value_or("it ends too early"))};
  Json value = builder.take();
  if (!value.is_object())
    return Error{ErrorKind::invalid,
                 fmt::format("The body must be one JSON object, not {} {}.",
                             value.is_array() ? "an" : "a", value.type_name())};
  return Result<Json>(boost::system::in_place_value, std::move(value));
}

}  // namespace reprise
