// Times what a prefix that is there already saves, and what keeping it costs (docs/replay.md, "Measured").
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/bench_model.h"
#include "core/temp_folder.h"
#include "engine/row_source.h"
#include "persist/prefix_store.h"

namespace seekline {

/// Tokens that are being written when decoding begins.
inline constexpr std::int64_t kReuseHandedOver = 2048;

struct ReuseBudget {
  int rounds = 3;
  /// Which of: the prompt in both decoder modes, the two exact ways back, decoding while rows are written.
  std::vector<std::string> parts{"prompt", "snapshot", "replay", "decode"};
  /// Chunks of the prompt that are computed, spread evenly behind rows by formula, the rest reckoned between
  /// them; 0: all, as they come.
  std::int64_t sampled_chunks = 0;
};

/// On a machine that is busy otherwise, times by the clock are worth little, those by the processor still
/// something.
struct Took {
  double clock = 0;      ///< seconds
  double processor = 0;  ///< of all threads of this process
  Took& operator+=(const Took& other);
  Took operator*(double factor) const { return {clock * factor, processor * factor}; }
};

/// A way to the first token of a prompt whose tokens but one have their rows.
struct WayResult {
  std::string name;
  std::int64_t tokens = 0;  ///< computed
  Spread clock, processor;  ///< seconds
  Took of_first;            ///< medians against those of the same tokens with everything in memory
};

struct ReuseResult {
  std::int64_t tokens = 0, chunk = 0, sampled_chunks = 0;
  std::array<Took, 2> prefill{};  ///< by DecoderMode; zero: not timed
  struct Chunk {
    std::int64_t first = 0;  ///< position
    std::array<Took, 2> took{};
  };
  std::vector<Chunk> chunks;                  ///< those that were sampled
  std::array<std::int64_t, 2> evaluations{};  ///< tokens x layers
  std::vector<WayResult> ways;
  std::int64_t stored_bytes = 0;  ///< of the store's file in use
  Spread quiet_step, writing_step;
  int steps = 0;  ///< decode steps of a round
};

class ReuseBench {
 public:
  /// Stores are made in a temporary folder.
  ReuseBench(Model& model, const ReuseBudget& budget, std::function<void(const std::string&)> progress);

  /// Throws Error(kUsage) where `tokens` do not fit, or are fewer than two windows.
  ReuseResult run(std::int64_t tokens);

 private:
  void prefill(ReuseResult& result);
  Took time_chunk(DecoderMode mode, std::int64_t chunk, std::int64_t tokens);
  void sampled_prefill(ReuseResult& result);
  std::unique_ptr<Timeline> prefix(std::int64_t tokens, bool stores);
  enum class Place : std::uint8_t { kMemory, kStore, kColdDisk };
  Took time_way(const Timeline& kept, ReplayWay way, Place place, std::int64_t& computed);
  void ways(ReuseResult& result, ReplayWay way);
  double decode_step(std::int64_t tokens, int steps, bool writes);
  void decode(ReuseResult& result);
  void open_store();
  void reopen_store();
  std::unique_ptr<RowSource> rows() const;
  void drop_file();
  Took compute(Timeline& timeline, std::int64_t most = INT64_MAX);

  Model& model_;
  const ReuseBudget budget_;
  std::function<void(const std::string&)> progress_;
  const TempFolder folder_;
  Key fingerprint_;
  std::shared_ptr<PrefixStore> store_;
  std::unique_ptr<ThreadPool> threads_;
  std::vector<float> logits_;
};

const char* mode_name(DecoderMode mode);
std::string reuse_bench_text(const ReuseResult& result);
nlohmann::json reuse_bench_json(const ReuseResult& result);

}  // namespace seekline
