// What a cache plan implies beyond bytes stored and read: sharing, search, prefill, precision-weighted work.
// Every figure is derived from the plan's stores and layers; docs/generations.md shows the arithmetic.
#pragma once

#include <cstdint>

#include "seekline/cache_plan.h"

namespace seekline {

/// Bytes that `tokens` tokens hold: finished rows of growing stores and filled window rows. Compressor tails,
/// which are state of unfinished groups, are CachePlan::tail_bytes().
std::int64_t cache_bytes(const CachePlan& plan, std::int64_t tokens);

/// The context from which on growing rows, at their rate per token, hold at least as much as the full
/// windows; 0 without windows.
std::int64_t window_crossover(const CachePlan& plan);

/// The smallest context from which on `later` never holds more than `earlier`; -1 where there is none, since
/// its rows grow as fast or faster.
std::int64_t smaller_from(const CachePlan& later, const CachePlan& earlier);

/// Main stores by owner and by reader. Without sharing and compression every reading layer would keep a row
/// of its own for every token.
struct Sharing {
  int owners = 0, readers = 0;
  double stored = 0, layer_own = 0;  ///< bytes per token of main rows: as they are, and without sharing
};
Sharing sharing(const CachePlan& plan);

/// Index rows scored for one generated token, with the pool and as if every index layer scanned all rows.
struct SearchWork {
  std::int64_t scored = 0, without_pool = 0;
};
SearchWork search_work(const CachePlan& plan, std::int64_t tokens);

/// (token, layer) evaluations of a prompt: every layer for every token, and with the decoder part run only
/// for the last tokens: those of a window where decoder layers have windows (CED), else the very last one
/// (YOCO).
struct PrefillWork {
  std::int64_t all = 0, decoder_last = 0;
  std::int64_t decoder_tokens = 0;  ///< that the decoder part runs on in the second case
};
PrefillWork prefill_work(const CachePlan& plan, std::int64_t tokens);

/// Multiply-adds of one generated token over cache rows, by what is read; `weighted` counts one as 1 where
/// the row's channel is bf16, 0.5 in fp8, 0.25 in fp4 (2 in f32).
struct DecodeWork {
  struct Sum {
    double operations = 0, weighted = 0;
  };
  Sum main, window, index_key;
  Sum total() const {
    return {main.operations + window.operations + index_key.operations,
            main.weighted + window.weighted + index_key.weighted};
  }
};
DecodeWork decode_work(const CachePlan& plan, std::int64_t tokens);

}  // namespace seekline
