// A folder of its own in the system's temporary folder, gone with the object.
#pragma once

#include <filesystem>
#include <string>

namespace seekline {

class TempFolder {
 public:
  /// Throws Error(kIo) where none can be made.
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace seekline
