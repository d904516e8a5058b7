// A loaded model of any family: its cache plan and its one forward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "attention/batch.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/weight_set.h"
#include "kernels/compute.h"
#include "model/taps.h"
#include "text/tokenizer.h"

namespace seekline {

/// Weights by the part of the model that reads them.
struct WeightPart {
  std::string name;  ///< "attention", "routed experts", "engram", "head", ...
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  std::int64_t bytes_per_token = 0;  ///< read by a decode step of one token
};

/// Immutable after load; one forward at a time may run on each Compute.
class Network {
 public:
  virtual ~Network() = default;

  virtual std::string family() const = 0;    ///< the config's model_type
  virtual std::string geometry() const = 0;  ///< one line for people
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int64_t max_context() const = 0;
  virtual std::vector<std::int64_t> eos_token_ids() const = 0;
  virtual std::int64_t bos_token_id() const = 0;  ///< -1: none
  virtual std::vector<WeightPart> parts() const = 0;
  /// Lines for people: choices that were made for this model, and what they cost.
  virtual std::vector<std::string> notes() const { return {}; }

  const CachePlan& plan() const { return plan_; }
  /// Matrices of which a step reads a few rows: embeddings (unless they are the head), Engram tables.
  const std::vector<WeightView>& tables() const { return tables_; }
  const std::vector<WeightSet::Unused>& unused() const { return unused_; }

  /// Computes all runs together. Caches have room (SequenceCache::reserve) and are advanced by the caller
  /// afterwards. logits [sum of wanted, vocab_size], runs in order. The result of a token depends on its
  /// sequence and on the floors of its run alone.
  virtual void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
                       Taps* taps) const = 0;

 protected:
  CachePlan plan_;
  std::vector<WeightView> tables_;
  std::vector<WeightSet::Unused> unused_;
};

/// Reads folder/config.json, picks the family by `model_type`, loads and checks everything. `tokenizer` is
/// needed by families with a compressed vocabulary; they refuse to load without it. Throws Error with
/// everything that is wrong.
std::unique_ptr<Network> load_network(const Checkpoint& checkpoint, const Tokenizer* tokenizer,
                                      const NumericSettings& settings);

/// The plan alone, from a parsed config; for `seekline plan`.
CachePlan plan_of_config(const nlohmann::json& config, const std::string& subject, Rows rows);

}  // namespace seekline
