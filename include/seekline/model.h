// A loaded model: immutable, shared by all its sessions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seekline/cache_plan.h"
#include "seekline/error.h"
#include "seekline/reuse.h"
#include "seekline/settings.h"

namespace seekline {

class Executor;
class Network;
class PagePool;
class Tokenizer;
class Checkpoint;

struct ModelOptions {
  NumericSettings settings;
  int threads = 0;                     ///< 0: the processors this process may run on
  std::int64_t batch_tokens = 512;     ///< tokens of one forward at most; longer inputs are cut into chunks
  std::int64_t context = 0;            ///< tokens of a sequence at most; 0: what the model was made for
  std::int64_t cache_limit_bytes = 0;  ///< memory of all cache pages at most; 0: no limit
  DecoderMode decoder = DecoderMode::kCed;  ///< of sessions; models without a decoder part do not mind
};

/// Weights stay mapped and are used in place. Thread-safe; forwards of all sessions take turns.
class Model {
 public:
  /// `folder` is a checkpoint as released: config.json, safetensors, tokenizer.json (may be absent where the
  /// family does not need it; text functions then throw). Throws Error with everything that is wrong.
  static std::shared_ptr<Model> open(const std::filesystem::path& folder, const ModelOptions& options = {});
  ~Model();

  const CachePlan& plan() const;
  std::int64_t context() const;
  std::int64_t vocab_size() const;
  const ModelOptions& options() const { return options_; }

  /// Text to ids and back; Error(kNotFound) where the checkpoint has no tokenizer.
  std::vector<std::int32_t> encode(std::string_view text, bool allow_added) const;
  std::string decode(std::span<const std::int32_t> ids) const;

  /// Tokens that end a text: of config.json and, where there is one, generation_config.json.
  const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }

  // For the rooms below (engine, persist, serve, app).
  const Network& network() const { return *network_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  const Tokenizer& required_tokenizer() const;
  Executor& executor() { return *executor_; }
  PagePool& pages() { return *pages_; }

 private:
  Model() = default;

  ModelOptions options_;
  std::vector<std::int32_t> end_tokens_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<PagePool> pages_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace seekline
