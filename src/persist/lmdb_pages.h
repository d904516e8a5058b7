// The pages of LMDB data files, as their bytes lie there (docs/prefix-store.md, "Faults").
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include <lmdb.h>

namespace seekline {

/// Bytes of LMDB's pages on this machine.
std::int64_t store_page_bytes();

/// Pages on which a value of `value_bytes` under a key of `key_bytes` lies alone; 0 where it lies in a tree
/// page.
std::int64_t value_pages(std::int64_t key_bytes, std::int64_t value_bytes);

/// Whether a value that LMDB returned, when it lies on pages of its own, lies on as many as its length needs.
/// LMDB frees what the page says, so this is asked before a value is deleted.
bool value_pages_are_sound(const MDB_val& key, const MDB_val& value);

namespace lmdb {

// The layout of LMDB 0.9 data files (mdb.c, "Page Flags", "Node", "MDB_meta"), 64-bit little-endian.
inline constexpr std::uint32_t kMagic = 0xBEEFC0DE;
inline constexpr std::uint32_t kDataVersion = 1;
inline constexpr std::size_t kPageHeader = 16, kNodeHeader = 8;
inline constexpr std::uint16_t kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08;
inline constexpr std::uint16_t kBigData = 0x01, kSubData = 0x02;
inline constexpr std::uint16_t kIntegerKey = 0x08;
inline constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
inline constexpr int kMaxDepth = 32;

struct PageHeader {
  std::uint64_t number;
  std::uint16_t pad, flags;
  std::uint16_t lower, upper;
  std::uint32_t overflow_pages() const { return lower | std::uint32_t{upper} << 16; }
};
static_assert(sizeof(PageHeader) == kPageHeader);

struct Tree {
  std::uint32_t pad;
  std::uint16_t flags, depth;
  std::uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};
static_assert(sizeof(Tree) == 48);

struct Meta {
  std::uint32_t magic, version;
  std::uint64_t address, map_bytes;
  Tree free, main;
  std::uint64_t last_page, txn;
};
static_assert(sizeof(Meta) == 136);

template <typename T>
T at(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

struct Node {
  std::uint16_t lo, hi, flags, key_bytes;
  const std::uint8_t* key;
  std::uint64_t value_bytes() const { return lo | std::uint64_t{hi} << 16; }  // of leaves
  std::uint64_t child() const {
    return lo | std::uint64_t{hi} << 16 | std::uint64_t{flags} << 32;
  }  // of branches
  const std::uint8_t* value() const { return key + key_bytes; }
  std::size_t bytes(bool leaf) const {
    const std::size_t value = !leaf ? 0 : (flags & kBigData) != 0 ? sizeof(std::uint64_t) : value_bytes();
    return (kNodeHeader + key_bytes + value + 1) & ~std::size_t{1};
  }
};

inline Node node_at(const std::uint8_t* page, std::uint16_t offset) {
  const std::uint8_t* p = page + offset;
  return {at<std::uint16_t>(p), at<std::uint16_t>(p + 2), at<std::uint16_t>(p + 4), at<std::uint16_t>(p + 6),
          p + 8};
}

/// False where the file ends before, or cannot be read.
bool read_fully(int file, void* out, std::size_t bytes, std::uint64_t offset);

/// Meta page 0 or 1; nothing where it is not one of a prefix store.
std::optional<Meta> read_meta(int file, std::uint64_t number);

}  // namespace lmdb
}  // namespace seekline
