#include "core/temp_folder.h"

#include <stdlib.h>

#include <fmt/format.h>

#include "seekline/error.h"

namespace seekline {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string name = (fs::temp_directory_path() / "seekline-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::kIo,
                fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace seekline
