#include "persist/page_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "persist/lmdb_pages.h"

namespace seekline {
namespace lmdb {
namespace {

// Walks everything that one snapshot uses. Problems end the walk at once.
class Walk {
 public:
  Walk(int file, std::uint64_t file_bytes, const Meta& meta)
      : file_(file),
        file_pages_(file_bytes / page_bytes()),
        next_page_(meta.last_page + 1),
        used_(next_page_, false) {
    used_[0] = used_[1] = true;
  }

  void run(const Meta& meta) {
    tree(meta.main, false, true);
    tree(meta.free, true, false);
    for (const std::uint64_t page : free_) claim(page, 1, "a free page", false);
  }
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  struct Counts {
    std::uint64_t branch = 0, leaf = 0, overflow = 0, entries = 0;
  };

  static std::uint64_t page_bytes() { return static_cast<std::uint64_t>(store_page_bytes()); }

  bool fail(std::string what) {
    if (!problem_) problem_ = std::move(what);
    return false;
  }

  // Pages belong to one owner each; those that hold something lie within the file.
  bool claim(std::uint64_t first, std::uint64_t count, const char* owner, bool in_file = true) {
    if (first < 2 || first >= next_page_ || count > next_page_ - first)
      return fail(fmt::format("{} is said to be page {}, which does not exist", owner, first));
    if (in_file && first + count > file_pages_)
      return fail(
          fmt::format("{} is page {}, behind the end of the file of {} pages", owner, first, file_pages_));
    for (std::uint64_t page = first; page < first + count; ++page) {
      if (used_[page]) return fail(fmt::format("page {} is used twice", page));
      used_[page] = true;
    }
    return true;
  }

  void tree(const Tree& t, bool integer_keys, bool holds_trees) {
    if (problem_) return;
    if (t.root == kNoPage) {
      if (t.depth != 0 || t.entries != 0) fail("an empty tree is said to have entries");
      return;
    }
    if (t.depth < 1 || t.depth > kMaxDepth) {
      fail(fmt::format("a tree of depth {}", t.depth));
      return;
    }
    integer_keys_ = integer_keys;
    holds_trees_ = holds_trees;
    last_key_.clear();
    first_key_ = true;
    Counts counts;
    std::vector<Tree> inner;
    if (!page(t.root, t.depth, counts, inner)) return;
    const bool agree = counts.branch == t.branch_pages && counts.leaf == t.leaf_pages &&
                       counts.entries == t.entries && (integer_keys || counts.overflow == t.overflow_pages);
    if (!agree) fail("a tree does not have the pages and entries that it is said to have");
    for (const Tree& below : inner) tree(below, false, false);
  }

  bool page(std::uint64_t number, int depth, Counts& counts, std::vector<Tree>& inner) {
    if (!claim(number, 1, "a tree page")) return false;
    std::vector<std::uint8_t> bytes(page_bytes());
    if (!read_fully(file_, bytes.data(), bytes.size(), number * page_bytes()))
      return fail(fmt::format("page {} cannot be read", number));
    const PageHeader header = at<PageHeader>(bytes.data());
    const bool leaf = depth == 1;
    if (header.number != number || header.flags != (leaf ? kLeaf : kBranch))
      return fail(fmt::format("page {} is not the tree page that it should be", number));
    std::vector<Node> nodes;
    if (!nodes_of(bytes.data(), header, leaf, nodes)) return false;
    if (leaf) {
      ++counts.leaf;
      for (const Node& node : nodes)
        if (!entry(node, counts, inner)) return false;
      return true;
    }
    ++counts.branch;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i > 0 && !next_key(nodes[i], true)) return false;
      if (!page(nodes[i].child(), depth - 1, counts, inner)) return false;
    }
    return true;
  }

  // Nodes fill the page from `upper` to its end without gaps or overlaps.
  bool nodes_of(const std::uint8_t* bytes, const PageHeader& header, bool leaf, std::vector<Node>& nodes) {
    const std::size_t size = page_bytes();
    const auto bad = [&] {
      return fail(fmt::format("page {} has nodes that do not fit together", header.number));
    };
    if (header.lower < kPageHeader || header.lower % 2 != 0 || header.lower > header.upper ||
        header.upper > size)
      return bad();
    const std::size_t count = (header.lower - kPageHeader) / 2;
    if (count < (leaf ? 1u : 2u)) return bad();
    std::vector<std::pair<std::size_t, std::size_t>> extents;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t offset = at<std::uint16_t>(bytes + kPageHeader + 2 * i);
      if (offset < header.upper || offset % 2 != 0 || offset + kNodeHeader > size) return bad();
      nodes.push_back(node_at(bytes, offset));
      extents.emplace_back(offset, nodes.back().bytes(leaf));
    }
    std::sort(extents.begin(), extents.end());
    std::size_t expected = header.upper;
    for (const auto& [offset, length] : extents) {
      if (offset != expected) return bad();
      expected += length;
    }
    return expected == size || bad();
  }

  // Keys ascend over the whole tree; a separator is not below what stands left of it and not above what
  // stands right.
  bool next_key(const Node& node, bool separator) {
    const std::vector<std::uint8_t> key(node.key, node.key + node.key_bytes);
    if (key.empty() || (integer_keys_ && key.size() != sizeof(std::uint64_t))) return fail("a key of no use");
    if (!first_key_) {
      const int order = compare(last_key_, key);
      if (order > 0 || (order == 0 && !last_was_separator_)) return fail("keys that do not ascend");
    }
    first_key_ = false;
    last_key_ = key;
    last_was_separator_ = separator;
    return true;
  }

  int compare(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) const {
    if (integer_keys_) {
      const std::uint64_t x = at<std::uint64_t>(a.data()), y = at<std::uint64_t>(b.data());
      return x < y ? -1 : x > y ? 1 : 0;
    }
    return a < b ? -1 : b < a ? 1 : 0;
  }

  bool entry(const Node& node, Counts& counts, std::vector<Tree>& inner) {
    if (!next_key(node, false)) return false;
    ++counts.entries;
    if (holds_trees_) {
      if (node.flags != kSubData || node.value_bytes() != sizeof(Tree))
        return fail("an entry that should be a tree");
      inner.push_back(at<Tree>(node.value()));
      return inner.back().flags == 0 || fail("a tree of a kind that a prefix store has not");
    }
    if ((node.flags & ~kBigData) != 0) return fail("an entry of a kind that a prefix store has not");
    if ((node.flags & kBigData) == 0) return !integer_keys_ || free_list(node.value(), node.value_bytes());
    const std::uint64_t first = at<std::uint64_t>(node.value());
    if (integer_keys_) return big_free_list(first, node.value_bytes());
    const auto pages = static_cast<std::uint64_t>(
        value_pages(node.key_bytes, static_cast<std::int64_t>(node.value_bytes())));
    if (pages == 0) return fail("a small value on a page of its own");
    counts.overflow += pages;
    return claim(first, pages, "a value");
  }

  bool big_free_list(std::uint64_t first, std::uint64_t bytes) {
    if (!claim(first, 1, "a free list")) return false;
    std::vector<std::uint8_t> header(kPageHeader);
    if (!read_fully(file_, header.data(), header.size(), first * page_bytes()))
      return fail("a free list is cut off");
    const PageHeader page = at<PageHeader>(header.data());
    const std::uint64_t pages = page.overflow_pages();
    if (page.number != first || page.flags != kOverflow || pages == 0 ||
        pages * page_bytes() < bytes + kPageHeader)
      return fail("a free list that is not where it should be");
    if (pages > 1 && !claim(first + 1, pages - 1, "a free list")) return false;
    std::vector<std::uint8_t> list(bytes);
    if (!read_fully(file_, list.data(), list.size(), first * page_bytes() + kPageHeader))
      return fail("a free list is cut off");
    return free_list(list.data(), bytes);
  }

  // A count, then that many page numbers, descending.
  bool free_list(const std::uint8_t* bytes, std::uint64_t size) {
    if (size < sizeof(std::uint64_t)) return fail("a free list without a count");
    const std::uint64_t count = at<std::uint64_t>(bytes);
    if (count > size / sizeof(std::uint64_t) - 1) return fail("a free list that is shorter than its count");
    std::uint64_t above = next_page_;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t page = at<std::uint64_t>(bytes + (i + 1) * sizeof(std::uint64_t));
      if (page < 2 || page >= above) return fail("a free list out of order");
      above = page;
      free_.push_back(page);
    }
    return true;
  }

  const int file_;
  const std::uint64_t file_pages_, next_page_;
  std::vector<bool> used_;
  std::vector<std::uint64_t> free_;
  std::optional<std::string> problem_;
  bool integer_keys_ = false, holds_trees_ = false, first_key_ = true, last_was_separator_ = false;
  std::vector<std::uint8_t> last_key_;
};

}  // namespace
}  // namespace lmdb

std::optional<std::string> meta_problem(int file) {
  const std::optional<lmdb::Meta> a = lmdb::read_meta(file, 0), b = lmdb::read_meta(file, 1);
  if (!a || !b) return "its first pages are not those of a prefix store, or are damaged";
  const std::uint64_t newer = std::max(a->txn, b->txn);
  if (newer - std::min(a->txn, b->txn) > 1) return "its first pages do not follow each other";
  struct stat info {};
  // Pages that were given back before they were ever written may lie behind the end, but not many times the
  // file.
  const std::uint64_t pages =
      ::fstat(file, &info) == 0 ? static_cast<std::uint64_t>(info.st_size / store_page_bytes()) : 0;
  for (const lmdb::Meta& meta : {*a, *b})
    if (meta.last_page > 4 * pages + (1 << 16)) return "it is much shorter than its first pages say";
  return std::nullopt;
}

std::optional<std::string> tree_problem(MDB_txn* txn) {
  MDB_env* env = mdb_txn_env(txn);
  int file = -1;
  mdb_env_get_fd(env, &file);
  std::optional<lmdb::Meta> meta;
  // A writer elsewhere may have moved on by two commits, which overwrites the meta page of this snapshot.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint64_t id = mdb_txn_id(txn);
    meta = lmdb::read_meta(file, id & 1);
    if (meta && meta->txn == id) break;
    mdb_txn_reset(txn);
    if (mdb_txn_renew(txn) != MDB_SUCCESS) return "it cannot be read";
    meta.reset();
  }
  if (!meta) return "its first pages are damaged";
  struct stat info {};
  if (::fstat(file, &info) != 0) return "its size cannot be read";
  lmdb::Walk walk(file, static_cast<std::uint64_t>(info.st_size), *meta);
  walk.run(*meta);
  return walk.problem();
}

}  // namespace seekline
