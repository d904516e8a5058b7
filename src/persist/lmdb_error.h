// LMDB's return codes as this project's errors.
#pragma once

#include <filesystem>
#include <string>

#include "seekline/error.h"

namespace seekline {

/// The map has no room for a write; the caller makes some and tries again.
struct MapFull {};

/// One sentence about `code` and what was being done to the store in `folder`.
Error lmdb_error(int code, const std::filesystem::path& folder, const std::string& doing);

/// Throws where `code` is not 0: MapFull, or lmdb_error().
void check_lmdb(int code, const std::filesystem::path& folder, const std::string& doing);

}  // namespace seekline
