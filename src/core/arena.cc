#include "core/arena.h"

#include <sys/mman.h>

#include <new>

#include "core/system_memory.h"

namespace seekline {
namespace {

constexpr std::size_t kMostAddresses = std::size_t{1} << 40;  // a terabyte costs nothing until it is used
constexpr std::size_t kLeastAddresses = std::size_t{1} << 30;

}  // namespace

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, reserved_);
}

void Arena::take(std::size_t wanted) {
  if (base_ == nullptr) {
    // Fewer addresses where the process may not have so many.
    void* range = MAP_FAILED;
    for (reserved_ = kMostAddresses; reserved_ >= kLeastAddresses && range == MAP_FAILED;) {
      range = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) reserved_ /= 2;
    }
    if (range == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::uint8_t*>(range);
  }
  const std::size_t end = (wanted + kHugePage - 1) / kHugePage * kHugePage;
  if (end > reserved_ || mprotect(base_ + taken_, end - taken_, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  madvise(base_ + taken_, end - taken_, MADV_HUGEPAGE);
  taken_ = end;
}

}  // namespace seekline
