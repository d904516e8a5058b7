// What of earlier prompts a command reuses: --decoder, --replay, --verify-reuse, --store.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "persist/prefix_store.h"
#include "seekline/session.h"

namespace seekline {

struct ReuseOptions {
  ReplayWay way = ReplayWay::kAuto;
  bool verify = false;
  std::string store;  ///< folder of a prefix store; empty: none
  std::int64_t store_limit = std::int64_t{32} << 30;
};

/// --decoder goes into the model's options.
void add_reuse_options(CLI::App& command, ReuseOptions& options, ModelOptions& model);

/// A session of `model` as the options say. Its prefix store writes what is left when the session is gone.
Session open_session(const std::shared_ptr<Model>& model, const ReuseOptions& options);

/// "reused 1,024 of 1,030 prompt tokens (memory; windows: kept at 960; 64 replayed)", or why nothing was;
/// empty where nothing could be.
std::string reuse_text(const ReuseReport& report);
/// "70 tokens computed, 1,400 token-layers in the encoder and 1,400 in the decoder".
std::string work_text(const ReuseReport& report);

}  // namespace seekline
