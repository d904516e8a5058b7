// A folder of safetensors files, memory-mapped and used in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "formats/weight_view.h"

namespace seekline {

/// One tensor of a checkpoint. `data` points into the mapping and may have any alignment: released files put
/// two-byte and four-byte elements at odd addresses.
struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  const std::uint8_t* data = nullptr;
  std::int64_t bytes = 0;
  int file = 0;  ///< index into Checkpoint::files()

  std::int64_t elements() const;
  std::string shape_text() const;  ///< "[129280, 5120]"
};

/// Owns the mappings of all shards. Opening reads headers only: milliseconds, whatever the size of the files.
class Checkpoint {
 public:
  struct File {
    std::filesystem::path path;
    std::int64_t bytes = 0;
  };

  /// `folder` holds `model.safetensors.index.json` with its shards, or one `model.safetensors`.
  /// Throws Error(kNotFound | kBadFile | kIo) with everything wrong with headers, ranges and index reported
  /// together.
  static Checkpoint open(const std::filesystem::path& folder);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const std::filesystem::path& folder() const;
  const std::vector<File>& files() const;
  /// In order of name.
  const std::vector<Tensor>& tensors() const;
  const Tensor* find(std::string_view name) const;  ///< nullptr if absent
  std::int64_t tensor_bytes() const;
  /// With a tenth of the memory left for caches and scratch.
  bool fits_memory() const;
  /// "model-00003-of-00048.safetensors", for messages.
  std::string file_name(const Tensor& tensor) const;

  /// The files are read whole sooner or later and stay in memory: huge pages, from the first touch on. What
  /// is read before this call, or by other programs, leaves small pages in the system's cache, and no huge
  /// page will ever take their place there; every one costs a few microseconds a step on virtual machines.
  /// Not for files larger than memory: with huge pages a byte costs a read of 2 MB from the disk.
  void expect_whole() const;
  /// How tensors are read from here on, once everything small has been: those in `by_rows` a row here and
  /// there, the others whole.
  void expect_use(std::span<const WeightView> by_rows) const;
  /// Reads all tensors once but those in `but`, so that they are in memory.
  void read_once(std::span<const WeightView> but) const;
  /// Leaves the range, of the tensor's bytes, as if it had not been read; the small pages of a look here and
  /// there would stand in the way of huge ones.
  void forget(const Tensor& tensor, const std::uint8_t* data, std::int64_t bytes) const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace seekline
