// A session in one file: its tokens, rows and windows, for a later run of the same model
// (docs/prefix-store.md, "Session files").
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "seekline/session.h"

namespace seekline {

struct ModelIdentity;

/// Saves and restores sessions of one model. Reading the model's fingerprint, once, takes from milliseconds
/// to some seconds (docs/prefix-store.md, "Fingerprint"). Thread-safe, as far as the sessions are not shared.
class SessionFiles {
 public:
  /// Throws Error(kIo) where the model's files cannot be read, and Error(kUsage) for a model whose rows
  /// depend on how a text is cut (--latent-order by-cost).
  explicit SessionFiles(const Model& model);
  explicit SessionFiles(const ModelIdentity& identity);
  ~SessionFiles();

  /// Written beside `path` first and renamed, so that a file is whole or as it was. Bytes: those of the
  /// session's rows and windows, 4 a token, the note, and about 150. `note` is the caller's: restore()
  /// returns it. Throws Error(kIo), and Error(kUsage) for a session behind a bounded replay.
  void save(const Session& session, const std::filesystem::path& path, const std::string& note = {}) const;

  /// Puts the file's tokens, rows and windows into `session`, which must be empty; its next prompt reuses
  /// them and says that they are from a "file". Throws Error(kNotFound | kIo), Error(kBadFile) for a damaged
  /// file, Error(kUnsupported) for another version's, and Error(kUsage) for a file of another model or other
  /// numeric settings; the session is empty then.
  std::string restore(Session& session, const std::filesystem::path& path) const;

 private:
  std::unique_ptr<const ModelIdentity> identity_;
};

}  // namespace seekline
