// The report of model_report.h for people: one fact a line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <vector>

#include "base/size.h"
#include "model_report.h"

namespace reprise {
namespace {

constexpr std::size_t kNamesMax = 12;

// A new line with its heading in the first column, or without one.
template <typename... Args>
void line(std::string& out, const char* heading,
          fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), "{:<13} ", heading);
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
  out += '\n';
}

std::string size_of(const Report& bytes) {
  return format_size(static_cast<std::size_t>(bytes.get<double>()));
}

// 1234567 → "1,234,567".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string some_of(const Report& names) {
  auto all = names.get<std::vector<std::string>>();
  const bool more = all.size() > kNamesMax;
  if (more) all.resize(kNamesMax);
  return fmt::format("{}{}", fmt::join(all, ", "), more ? ", ..." : "");
}

// {0, 1, 2, 5} → "0-2, 5".
std::string ranges(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    parts.push_back(end - i == 1
                        ? std::to_string(numbers[i])
                        : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void add_weights(std::string& out, const Report& report) {
  line(out, "parameters", "{}", grouped(report.at("parameters")));
  line(out, "weights", "{} in {} {}", size_of(report.at("weight_bytes")),
       report.at("files").size(),
       report.at("files").size() == 1 ? "file" : "files");
  for (const Report& file : report.at("files"))
    line(out, "", "{}, {}", file.at("name").get<std::string>(),
         size_of(file.at("bytes")));
  const char* heading = "stored as";
  for (const Report& group : report.at("storage")) {
    std::string how = group.at("dtype");
    if (group.contains("bits"))
      how = fmt::format("{} bits in groups of {} ({})",
                        group.at("bits").get<int>(),
                        group.at("group_size").get<int>(), how);
    line(out, heading, "{}: {} tensors, {} ({})", how,
         group.at("tensors").get<int>(), size_of(group.at("bytes")),
         some_of(group.at("modules")));
    heading = "";
  }
}

// Of a family that is stored in fewer bits, and from where on.
std::string in_bits(const Report& family) {
  const int bits = family.at("bits"), from = family.at("bits_from");
  if (bits == 0) return {};
  return from == 0
             ? fmt::format(", in {} bits", bits)
             : fmt::format(", in {} bits from position {} on", bits, from);
}

void add_state(std::string& out, const Report& state) {
  const char* heading = "state";
  for (const Report& kind : state.at("kinds")) {
    line(out, heading, "layers {}:{}",
         ranges(kind.at("layers").get<std::vector<int>>()),
         kind.at("families").empty() ? " none of their own" : "");
    heading = "";
    for (const Report& family : kind.at("families"))
      line(out, "", "  {}: {}, {} x {}{}", family.at("name").get<std::string>(),
           family.at("growth").get<std::string>(),
           family.at("row_elements").get<int>(),
           family.at("dtype").get<std::string>(), in_bits(family));
  }
  line(out, "", "{} a token, {} a snapshot, {} at the full context",
       size_of(state.at("bytes_per_token")),
       size_of(state.at("bytes_per_snapshot")),
       size_of(state.at("bytes_at_context")));
}

void add_text_side(std::string& out, const Report& report) {
  if (report.contains("text_refusal")) {
    line(out, "text", "not usable: {}",
         report.at("text_refusal").get<std::string>());
    return;
  }
  line(out, "tokenizer", "{} tokens", grouped(report.at("tokenizer_tokens")));
  line(out, "chat template", "{}",
       report.at("chat_template").get<bool>() ? "yes" : "none");
  line(out, "end tokens", "{}",
       fmt::join(report.at("end_tokens").get<std::vector<int>>(), ", "));
}

}  // namespace

std::string report_text(const Report& report) {
  std::string out;
  line(out, "model type", "{}", report.at("model_type").get<std::string>());
  if (report.contains("refusal"))
    line(out, "not served", "{}", report.at("refusal").get<std::string>());
  if (report.at("served").get<bool>()) {
    line(out, "layers", "{}", report.at("layers").get<int>());
    line(out, "context", "{} tokens", grouped(report.at("context_tokens")));
    line(out, "vocabulary", "{}", grouped(report.at("vocabulary")));
  }
  add_weights(out, report);
  if (report.at("served").get<bool>()) {
    add_state(out, report.at("state"));
    const Report& unread = report.at("not_loaded");
    line(out, "not loaded", "{}",
         unread.empty()
             ? "nothing: every tensor is used"
             : fmt::format("{} tensors ({})", unread.size(), some_of(unread)));
  }
  add_text_side(out, report);
  for (const Report& tensor : report.value("tensors", Report::array()))
    fmt::format_to(std::back_inserter(out), "{}  {} [{}]{}\n",
                   tensor.at("name").get<std::string>(),
                   tensor.at("dtype").get<std::string>(),
                   fmt::join(tensor.at("shape").get<std::vector<int>>(), ", "),
                   tensor.value("loaded", true) ? "" : "  not loaded");
  return out;
}

}  // namespace reprise
