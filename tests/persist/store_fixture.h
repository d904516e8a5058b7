// Sequences whose rows follow from their tokens, and the comparison of caches.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/sequence_cache.h"
#include "cache/snapshot.h"
#include "core/temp_folder.h"
#include "persist/prefix_store.h"

namespace seekline::persist_test {

namespace fs = std::filesystem;

/// A V4.1 in small: stores of m = 2 and m = 1 with index keys, windows of both parts, a tail.
inline CachePlan small_plan() {
  CachePlan plan;
  plan.model = "test";
  plan.window = 8;
  plan.layers.resize(3);
  plan.layers[2].part = Part::kDecoder;
  const auto add = [&](int layer, StoreKind kind, RowFormat row, int m, std::int64_t ring) {
    plan.stores.push_back({static_cast<StoreId>(plan.stores.size()), layer, kind, row, m, ring, "store"});
  };
  add(0, StoreKind::kWindow, {RowKind::kV41Fp8, 64}, 1, 8);
  add(0, StoreKind::kMain, {RowKind::kV41Fp4, 64}, 2, 0);
  add(0, StoreKind::kIndexKey, {RowKind::kIndexFp4, 32}, 2, 0);
  add(0, StoreKind::kTail, {RowKind::kF32, 16}, 1, 2);
  add(1, StoreKind::kMain, {RowKind::kV41Fp4, 64}, 1, 0);
  add(1, StoreKind::kIndexKey, {RowKind::kIndexFp4, 32}, 1, 0);
  add(2, StoreKind::kWindow, {RowKind::kV41Fp8, 64}, 1, 8);
  return plan;
}

/// The geometry of V4.1-Flash's cache: 890 bytes a token, 40 windows of 128 rows of 528 bytes.
inline CachePlan flash_plan() {
  CachePlan plan;
  plan.model = "flash";
  plan.window = 128;
  plan.layers.resize(40);
  const auto add = [&](int layer, StoreKind kind, RowFormat row, int m, std::int64_t ring) {
    plan.stores.push_back({static_cast<StoreId>(plan.stores.size()), layer, kind, row, m, ring, "store"});
  };
  for (int layer = 0; layer < 40; ++layer) {
    if (layer >= 20) plan.layers[static_cast<std::size_t>(layer)].part = Part::kDecoder;
    add(layer, StoreKind::kWindow, {RowKind::kV41Fp8, 512}, 1, 128);
  }
  for (int source = 0; source < 4; ++source) {
    const int m = source < 3 ? 2 : 1;
    add(source * 6 + 2, StoreKind::kMain, {RowKind::kV41Fp4, 512}, m, 0);
    add(source * 6 + 2, StoreKind::kIndexKey, {RowKind::kIndexFp4, 128}, m, 0);
    if (m > 1) add(source * 6 + 2, StoreKind::kTail, {RowKind::kF32, 1024}, 1, 2);
  }
  return plan;
}

inline ModelIdentity identity_named(const std::string& name) {
  const std::string description = "{\"model_type\":\"" + name + "\"}";
  return {key_of({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}, 1), description};
}

inline std::vector<std::int32_t> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 1000);
  return tokens;
}

/// Stands for a forward: appends tokens, and rows that are a function of every token up to their last one.
class Sequence {
 public:
  explicit Sequence(PagePool& pool) : cache(pool) {}

  void append(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      const std::int64_t position = cache.length();
      cache.reserve(position + 1);
      hash_ = (hash_ ^ static_cast<std::uint64_t>(token)) * 0x9e3779b97f4a7c15u + 1;
      for (const Store& store : cache.plan().stores) {
        if (!store.growing()) {
          fill(cache.mutable_ring_row(store.id, position), store);
        } else if ((position + 1) % store.tokens_per_row == 0) {
          fill(cache.mutable_row(store.id, position / store.tokens_per_row), store);
        }
      }
      cache.advance(position, {&token, 1});
    }
  }

  SequenceCache cache;

 private:
  void fill(MutableRow row, const Store& store) const {
    std::uint64_t x = hash_ + static_cast<std::uint64_t>(store.id) * 977;
    const auto bytes = [&](std::uint8_t* out, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out[i] = static_cast<std::uint8_t>(x);
      }
    };
    bytes(row.data, store.row.data_bytes());
    bytes(row.scale, store.row.scale_bytes());
  }

  std::uint64_t hash_ = 1;
};

/// The rows of growing stores of `cache`, which are those of the same tokens computed anew.
inline void expect_right_rows(PagePool& pool, const SequenceCache& cache, const std::string& where = {}) {
  Sequence fresh(pool);
  fresh.append(cache.tokens());
  for (const Store& store : cache.plan().stores) {
    if (!store.growing()) continue;
    for (std::int64_t row = 0; row < store.rows_at(cache.length()); ++row) {
      const RowRef got = cache.row(store.id, row), want = fresh.cache.row(store.id, row);
      ASSERT_EQ(std::memcmp(got.data, want.data, static_cast<std::size_t>(store.row.data_bytes())), 0)
          << where << " store " << store.id << " row " << row;
      ASSERT_EQ(std::memcmp(got.scale, want.scale, static_cast<std::size_t>(store.row.scale_bytes())), 0)
          << where << " store " << store.id << " row " << row;
    }
  }
}

/// The rings of `cache` at `length` tokens of `tokens`.
inline void expect_right_rings(PagePool& pool, const SequenceCache& cache,
                               std::span<const std::int32_t> tokens, SnapshotPart part) {
  Sequence fresh(pool);
  fresh.append(tokens);
  for (const StoreId id : snapshot_stores(cache.plan(), part)) {
    const Store& store = cache.plan().stores[static_cast<std::size_t>(id)];
    const std::int64_t length = static_cast<std::int64_t>(tokens.size());
    for (std::int64_t p = length - store.rows_at(length); p < length; ++p) {
      const RowRef got = cache.ring_row(id, p), want = fresh.cache.ring_row(id, p);
      ASSERT_EQ(std::memcmp(got.data, want.data, static_cast<std::size_t>(store.row.data_bytes())), 0)
          << id << " " << p;
      ASSERT_EQ(std::memcmp(got.scale, want.scale, static_cast<std::size_t>(store.row.scale_bytes())), 0)
          << id << " " << p;
    }
  }
}

inline std::vector<char> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const fs::path& path, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A store for one plan with its pages.
struct Bench {
  explicit Bench(const fs::path& folder, const CachePlan& plan = small_plan(),
                 const std::string& name = "model", std::int64_t limit = std::int64_t{256} << 20)
      : pool(plan) {
    PrefixStoreOptions options;
    options.folder = folder;
    options.limit_bytes = limit;
    store = std::make_unique<PrefixStore>(plan, identity_named(name), options);
  }

  /// Stores the sequence of these tokens and waits for it.
  PrefixStored put(std::span<const std::int32_t> tokens,
                   std::optional<SnapshotPart> snapshot = std::nullopt) {
    Sequence sequence(pool);
    sequence.append(tokens);
    const PrefixStored stored = store->store(sequence.cache, snapshot);
    store->flush();
    return stored;
  }

  /// What can be restored of `tokens`, compared with rows computed anew.
  std::int64_t reusable(std::span<const std::int32_t> tokens) {
    const PrefixHit hit = store->lookup(tokens);
    SequenceCache cache(pool);
    const PrefixRestored restored = store->restore(hit, hit.length(), cache);
    expect_right_rows(pool, cache);
    return restored.length;
  }

  PagePool pool;
  std::unique_ptr<PrefixStore> store;
};

}  // namespace seekline::persist_test
