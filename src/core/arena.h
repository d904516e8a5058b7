// Scratch memory of a step: handed out by bumping, given back by scope, kept between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/matrix.h"

namespace seekline {

/// Grows while a new kind of step is met for the first time; from then on nothing is allocated. Not
/// thread-safe: workers get their pieces before a stage starts. Memory is not initialised.
class Arena {
 public:
  /// Gives back everything handed out since its construction.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope() {
      arena_.block_ = block_;
      arena_.used_ = used_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t block_, used_;
  };

  /// 64-byte aligned.
  std::uint8_t* bytes(std::int64_t count) {
    const std::size_t need = (static_cast<std::size_t>(count) + 63) / 64 * 64;
    while (block_ < blocks_.size() && used_ + need > blocks_[block_].size()) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) blocks_.emplace_back(need > kBlockBytes ? need : kBlockBytes);
    std::uint8_t* at = blocks_[block_].data() + used_;
    used_ += need;
    return at;
  }

  template <typename T>
  T* array(std::int64_t count) {
    return reinterpret_cast<T*>(bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }

  MatrixView<float> matrix(std::int64_t rows, std::int64_t cols) {
    return {array<float>(rows * cols), rows, cols};
  }

  /// Bytes held from the system.
  std::size_t capacity() const {
    std::size_t sum = 0;
    for (const auto& block : blocks_) sum += block.size();
    return sum;
  }

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 22;
  std::vector<Buffer<std::uint8_t>> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

}  // namespace seekline
