// Options of a command from a file: TOML, or a JSON object. Flags on the command line win.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace seekline {

/// Keys are the options' long names, with - or _ between words; a list gives an option several times. Throws
/// Error(kNotFound | kBadFile) in one sentence; a key that is no option is refused by name.
void read_config_options(CLI::App& command, const std::string& path);

}  // namespace seekline
