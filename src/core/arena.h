// Scratch memory of a step: handed out by bumping, given back by scope, kept between steps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matrix.h"

namespace seekline {

/// Bytes rounded up to whole lines of the caches, as the arena hands them out.
constexpr std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// One range of addresses, of which memory is taken as far as the largest step so far needed it, on huge
/// pages where the system has them. From then on nothing is allocated. Not thread-safe: workers get their
/// pieces before a stage starts. Memory is not initialised.
class Arena {
 public:
  /// Gives back everything handed out since its construction.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ~Scope() { arena_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t used_;
  };

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// 64-byte aligned. Throws std::bad_alloc.
  std::uint8_t* bytes(std::int64_t count) {
    const auto need = static_cast<std::size_t>(whole_lines(count));
    if (used_ + need > taken_) take(used_ + need);
    std::uint8_t* at = base_ + used_;
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
  std::size_t capacity() const { return taken_; }

 private:
  void take(std::size_t wanted);

  std::uint8_t* base_ = nullptr;
  std::size_t reserved_ = 0;  // addresses
  std::size_t taken_ = 0, used_ = 0;
};

}  // namespace seekline
