// Read-only memory mappings of files that must not change while they are used.
#pragma once

#include <cstdint>
#include <filesystem>

namespace seekline {

/// Owns the mapping of one whole file. Views into it live as long as the object. Reading is thread-safe.
///
/// If the file is cut short (or its disk fails) while it is mapped, the process ends with exit code kIo and
/// one sentence on standard error that names the file: there is no way to go on with weights that are gone.
class MappedFile {
 public:
  /// Throws Error(kNotFound | kIo). An empty file maps to no bytes.
  static MappedFile open(const std::filesystem::path& path);
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  const std::uint8_t* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Lets go of the pages of [data, data + bytes) of this mapping, in the system's cache too unless another
  /// program holds them: later reads find the file as if these bytes had never been read.
  void forget(const std::uint8_t* data, std::int64_t bytes) const;

 private:
  void release() noexcept;

  std::filesystem::path path_;
  const std::uint8_t* data_ = nullptr;
  std::int64_t bytes_ = 0;
  int fd_ = -1;
  void* guard_ = nullptr;  // entry of the table that the SIGBUS handler reads
};

/// Writes what is not on the disk yet and lets the system's cache forget the open file: what is written lies
/// there on small pages, and read again, on huge ones where map_huge_pages asks for them.
void forget_written(int fd);

/// Whether some page of the range is in memory already, in the system's cache or here. True where the system
/// does not tell, as of files that belong to others.
bool map_is_resident(const std::uint8_t* data, std::int64_t bytes);
/// Asks the kernel to read [data, data + bytes) of some mapping ahead; returns at once.
void map_will_need(const std::uint8_t* data, std::int64_t bytes);
/// Tells the kernel that the range is read whole, again and again: huge pages where it has them for files
/// (a read over 4 KB pages is half as fast on virtual machines). Whole huge pages within the range only.
void map_huge_pages(const std::uint8_t* data, std::int64_t bytes);
/// Tells the kernel that reads within the range come in no order, so that reading ahead is wasted.
void map_random_access(const std::uint8_t* data, std::int64_t bytes);
/// Lets go of the pages of the range; the next read fetches them from the file again.
void map_dont_need(const std::uint8_t* data, std::int64_t bytes);

}  // namespace seekline
