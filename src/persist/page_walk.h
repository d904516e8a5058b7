// Looks at the pages of an LMDB file before LMDB trusts them.
//
// LMDB's pages carry no checksums, and its code follows whatever numbers it finds there: a flipped bit in a
// tree page could make it run in circles or read beyond its map. So a store is walked once when it is opened,
// with every number checked and every page used once. Payloads are not read; their records have checksums of
// their own.
#pragma once

#include <optional>
#include <string>

#include <lmdb.h>

namespace seekline {

/// What is wrong with the two meta pages of the file, before anything opens it; nothing for files that LMDB
/// may open. A file shorter than two pages is one that was never committed to: the caller may start it anew.
std::optional<std::string> meta_problem(int file);

/// Walks the trees and the free list of the snapshot that `txn` reads. What is wrong with them, or nothing.
/// Reads the tree pages only: about 1/2,000 of a store of V4.1 blocks.
std::optional<std::string> tree_problem(MDB_txn* txn);

}  // namespace seekline
