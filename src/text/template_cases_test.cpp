// Chat templates against what Python's Jinja made of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "text/chat_template.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

// Known differences to Python's engine, none of which a published template
// meets. The test fails when one of them goes away, so that this list stays
// true.
const std::map<std::string, std::string> kDifferent = {
    {"namespace_dict", "namespace() takes no dictionary with keywords"},
    {"macro_varargs", "macros have no varargs and kwargs"},
    {"print_nested_strings", "U+200B is printed as it is, not escaped"},
    {"none_iter_error", "walking over none is empty, not an error"},
    {"str_format", "no % operator on strings"},
    {"dict_attr_key_named_items",
     "d.items is the key's value, if there is one"},
    {"dict_fromkeys", "dict is a function without fromkeys"},
    {"filter_indent", "indent takes a number, not a string"},
    {"filter_escape", "escape writes other names of the same entities"},
    {"filter_safe_concat", "no Markup type that escapes what is added to it"},
    {"filter_truncate", "no truncate filter"},
    {"filter_attr", "attr finds a dictionary's keys, too"},
    {"filter_pprint_xml", "no xmlattr filter"},
    {"filter_urlencode", "no urlencode filter"},
    {"filter_wordwrap", "no wordwrap filter"},
};

Json read_cases() {
  std::ifstream file(REPRISE_SOURCE_DIR "/tests/fixtures/templates/cases.json");
  return Json::parse(file);
}

// Whether the case comes out as Python has it; `what` says what came out.
bool passes(const Json& test, std::string& what) {
  const auto compiled = ChatTemplate::compile(
      test.at("template").get<std::string>(), Json::object());
  Result<std::string> rendered = Error{};
  if (compiled)
    rendered = (*compiled)->render(test.at("context"), test.value("now", 0L));
  else
    rendered = compiled.error();
  what = rendered ? *rendered : "error: " + rendered.error().message;
  if (test.contains("error")) return !rendered;
  return rendered && *rendered == test.at("expected").get<std::string>();
}

TEST(TemplateCases, AsPythonExceptTheKnownOnes) {
  setenv("TZ", "UTC", 1);  // the cases' strftime_now
  const Json cases = read_cases();
  ASSERT_EQ(cases.size(), 194u);
  std::size_t different = 0;
  for (const Json& test : cases) {
    const auto name = test.at("name").get<std::string>();
    std::string what;
    const bool same = passes(test, what);
    const bool known = kDifferent.contains(name);
    different += !same;
    EXPECT_NE(same, known) << name << ": " << test.at("template")
                           << "\n  ours:   " << what << "\n  Python: "
                           << test.value("expected",
                                         "error: " + test.value("error", ""));
  }
  EXPECT_EQ(different, kDifferent.size());
}

}  // namespace
}  // namespace reprise
