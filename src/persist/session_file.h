// A session in one file: its tokens, rows and windows, for a later run of the same model
// (docs/prefix-store.md, "Session files").
#pragma once

#include <filesystem>
#include <string>

#include "persist/model_identity.h"
#include "seekline/session.h"

namespace seekline {

/// Written beside `path` first and renamed, so that a file is whole or as it was. Bytes: those of the
/// session's rows and windows, 4 a token, the note, and about 150. `note` is the caller's: restore_session
/// returns it. Throws Error(kIo).
void save_session(const Session& session, const ModelIdentity& identity, const std::string& note,
                  const std::filesystem::path& path);

/// Puts the file's tokens, rows and windows into `session`, which must be empty; its next prompt reuses them.
/// Throws Error(kNotFound | kIo), Error(kBadFile) for a damaged file, Error(kUnsupported) for another
/// version's, and Error(kUsage) for a file of another model or other numeric settings.
std::string restore_session(Session& session, const ModelIdentity& identity,
                            const std::filesystem::path& path);

}  // namespace seekline
