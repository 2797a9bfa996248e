// A request's target → the path that routes compare with.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

// Without the query and fragment, and with %XX decoded once. An escape that is
// not two hex digits stays as it is. An absolute target ("http://host/path")
// gives its path.
std::string decode_path(std::string_view target);

}  // namespace reprise
