#include "persist/lmdb_pages.h"

#include <unistd.h>

#include <array>

namespace seekline {
namespace lmdb {

bool read_fully(int file, void* out, std::size_t bytes, std::uint64_t offset) {
  std::uint8_t* to = static_cast<std::uint8_t*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(file, to, bytes, static_cast<off_t>(offset));
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

std::optional<Meta> read_meta(int file, std::uint64_t number) {
  std::array<std::uint8_t, kPageHeader + sizeof(Meta)> bytes{};
  const std::uint64_t page_bytes = static_cast<std::uint64_t>(store_page_bytes());
  if (!read_fully(file, bytes.data(), bytes.size(), number * page_bytes)) return std::nullopt;
  const PageHeader header = at<PageHeader>(bytes.data());
  const Meta meta = at<Meta>(bytes.data() + kPageHeader);
  const bool sound = header.number == number && header.flags == kMeta && meta.magic == kMagic &&
                     meta.version == kDataVersion && meta.address == 0 && meta.free.pad == page_bytes &&
                     meta.free.flags == kIntegerKey && meta.main.flags == 0 && meta.last_page >= 1 &&
                     (meta.txn & 1) == (meta.txn == 0 ? 0 : number);
  if (!sound) return std::nullopt;
  return meta;
}

}  // namespace lmdb

std::int64_t store_page_bytes() {
  static const std::int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

std::int64_t value_pages(std::int64_t key_bytes, std::int64_t value_bytes) {
  const std::int64_t page = store_page_bytes();
  const std::int64_t most =
      ((page - static_cast<std::int64_t>(lmdb::kPageHeader)) / 2 & ~std::int64_t{1}) - 2;
  if (static_cast<std::int64_t>(lmdb::kNodeHeader) + key_bytes + value_bytes <= most) return 0;
  return (static_cast<std::int64_t>(lmdb::kPageHeader) - 1 + value_bytes) / page + 1;
}

bool value_pages_are_sound(const MDB_val& key, const MDB_val& value) {
  const std::int64_t pages =
      value_pages(static_cast<std::int64_t>(key.mv_size), static_cast<std::int64_t>(value.mv_size));
  if (pages == 0) return true;
  const auto address = reinterpret_cast<std::uintptr_t>(value.mv_data);
  if (address % static_cast<std::uintptr_t>(store_page_bytes()) != lmdb::kPageHeader)
    return true;  // not written yet
  const lmdb::PageHeader header =
      lmdb::at<lmdb::PageHeader>(static_cast<const std::uint8_t*>(value.mv_data) - lmdb::kPageHeader);
  return (header.flags & lmdb::kOverflow) != 0 && header.overflow_pages() == pages;
}

}  // namespace seekline
