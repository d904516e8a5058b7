#include "core/system_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace seekline {

#if defined(__SANITIZE_ADDRESS__)
// From the heap, where the sanitizer sees a step past the end.
SystemMemory::SystemMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = static_cast<std::uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, bytes);
}

SystemMemory::~SystemMemory() { std::free(data_); }
#else
SystemMemory::SystemMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  // Aligned by taking more addresses than needed and giving back both ends.
  const std::size_t reserved = huge ? bytes + kHugePage : bytes;
  void* range = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::uint8_t*>(range);
  if (!huge) return;
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(range) % kHugePage) % kHugePage;
  if (before > 0) munmap(data_, before);
  data_ += before;
  const std::size_t kept = (bytes + 4095) / 4096 * 4096, after = reserved - before - kept;
  if (after > 0) munmap(data_ + kept, after);
  madvise(data_, bytes, MADV_HUGEPAGE);
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}
#endif

}  // namespace seekline
