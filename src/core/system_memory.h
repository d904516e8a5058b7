// Memory straight from the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace seekline {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Owns zeroed memory that costs nothing until it is touched. A huge page's bytes or more lie on huge pages
/// where the system has them: what is read at random all over a large range misses the TLB at every touch
/// otherwise. Throws std::bad_alloc.
class SystemMemory {
 public:
  SystemMemory() = default;
  explicit SystemMemory(std::size_t bytes);
  ~SystemMemory();
  SystemMemory(SystemMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  SystemMemory& operator=(SystemMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::uint8_t* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace seekline
