#include "seekline/model.h"

#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/page_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config_reader.h"
#include "engine/executor.h"
#include "model/network.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

void check_options(const ModelOptions& o, std::int64_t max_context) {
  if (o.threads < 0 || o.threads > 1024)
    throw Error(ErrorCode::kUsage,
                fmt::format("threads is {}, but must be between 1 and 1024, or 0", o.threads));
  if (o.batch_tokens < 1 || o.batch_tokens > 65536)
    throw Error(ErrorCode::kUsage,
                fmt::format("batch_tokens is {}, but must be between 1 and 65536", o.batch_tokens));
  if (o.context < 0 || o.context > max_context)
    throw Error(ErrorCode::kUsage, fmt::format("context is {}, but this model takes between 1 and {} tokens",
                                               o.context, max_context));
  if (o.cache_limit_bytes < 0) throw Error(ErrorCode::kUsage, "the cache limit is negative");
}

// config.json's list, and generation_config.json's where that file is there (released chat models name more
// there).
std::vector<std::int32_t> end_tokens_of(const Network& network, const std::filesystem::path& folder) {
  std::set<std::int64_t> ids;
  for (const std::int64_t id : network.eos_token_ids()) ids.insert(id);
  const std::filesystem::path path = folder / "generation_config.json";
  if (std::filesystem::exists(path)) {
    const nlohmann::json config = read_config_file(path.string());
    const auto found = config.find("eos_token_id");
    if (found != config.end() && !found->is_null()) {
      for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
        if (!id.is_number_integer())
          throw Error(ErrorCode::kBadFile,
                      path.string() + ": eos_token_id must be a token id or a list of them");
        ids.insert(id.get<std::int64_t>());
      }
    }
  }
  std::vector<std::int32_t> out;
  for (const std::int64_t id : ids)
    if (id >= 0 && id < network.vocab_size()) out.push_back(static_cast<std::int32_t>(id));
  return out;
}

}  // namespace

std::shared_ptr<Model> Model::open(const std::filesystem::path& folder, const ModelOptions& options) {
  std::shared_ptr<Model> model(new Model);
  model->options_ = options;
  model->checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(folder));
  const bool from_disk = !model->checkpoint_->fits_memory();
  if (!from_disk) model->checkpoint_->expect_whole();
  const std::filesystem::path tokenizer = folder / "tokenizer.json";
  if (std::filesystem::exists(tokenizer))
    model->tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::load(tokenizer));
  model->network_ = load_network(*model->checkpoint_, model->tokenizer_.get(), options.settings);
  model->end_tokens_ = end_tokens_of(*model->network_, folder);
  check_options(options, model->network_->max_context());
  if (options.context == 0) model->options_.context = model->network_->max_context();
  model->checkpoint_->expect_use(model->network_->tables());
  model->pages_ = std::make_unique<PagePool>(model->network_->plan(), options.cache_limit_bytes);
  model->executor_ =
      std::make_unique<Executor>(*model->network_, options.settings, options.threads, from_disk);
  return model;
}

Model::~Model() = default;

const CachePlan& Model::plan() const { return network_->plan(); }
std::int64_t Model::context() const { return options_.context; }
std::int64_t Model::vocab_size() const { return network_->vocab_size(); }

const Tokenizer& Model::required_tokenizer() const {
  if (!tokenizer_)
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} has no tokenizer.json, so text cannot be read or written",
                            checkpoint_->folder().string()));
  return *tokenizer_;
}

std::vector<std::int32_t> Model::encode(std::string_view text, bool allow_added) const {
  return required_tokenizer().encode(text, allow_added);
}

std::string Model::decode(std::span<const std::int32_t> ids) const {
  return required_tokenizer().decode(ids);
}

}  // namespace seekline
