#include "core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace seekline {

namespace fs = std::filesystem;

namespace {

// The lowest limit of `group` and the groups above it, up to `root`, where it is below `least`.
std::int64_t lowest_limit(fs::path group, const fs::path& root, const char* file, std::int64_t least) {
  for (;; group = group.parent_path()) {
    std::ifstream limit(group / file);
    std::int64_t bytes = 0;
    if (limit >> bytes && bytes > 0) least = std::min(least, bytes);  // "max" is no number
    if (group == root || !group.has_relative_path()) return least;
  }
}

}  // namespace

std::int64_t memory_bytes() {
  std::int64_t least = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const fs::path root = "/sys/fs/cgroup";
  std::ifstream own("/proc/self/cgroup");  // lines "0::/path" (version 2) and "4:memory:/path" (version 1)
  for (std::string line; std::getline(own, line);) {
    const auto at = line.find(":/");
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at + 2);
    if (line.starts_with("0::")) least = lowest_limit(root / path, root, "memory.max", least);
    if (line.substr(0, at).ends_with(":memory"))
      least = lowest_limit(root / "memory" / path, root / "memory", "memory.limit_in_bytes", least);
  }
  return least;
}

}  // namespace seekline
