#include "api/apply_template.h"

#include "api/fields.h"

namespace reprise {

Result<bool> parse_generation_prompt(const Json& body) {
  return read_bool(body, "add_generation_prompt", true);
}

Json apply_template_reply(const std::string& prompt) {
  return {{"prompt", prompt}};
}

}  // namespace reprise
