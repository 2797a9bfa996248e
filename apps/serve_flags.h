// The flags of `reprise serve`: the model's, and who may ask how much.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model_flags.h"
#include "server/server.h"

namespace reprise {

struct ServeFlags {
  ModelFlags model;
  ServerOptions server;
  std::string api_key_file;
  std::string access_log = "on";
};

// Declares the flags on `command`; values land in `flags`, which must outlive
// the parse.
void add_serve_flags(CLI::App& command, ServeFlags& flags);

// What the parse alone could not do: reads the file of keys, checks values
// against each other. Errors: with the flag and the remedy, never with a key.
Result<void> complete(ServeFlags& flags);

}  // namespace reprise
