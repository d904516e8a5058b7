// A YOCO model small enough for tests, by formula.
#pragma once

#include <string>

#include "checkpoint/synth.h"
#include "core/temp_folder.h"
#include "engine/golden_model.h"

namespace seekline::golden {

class SmallYoco {
 public:
  explicit SmallYoco(int self_layers = 2) {
    config_ = nlohmann::json::parse(R"json({
      "model_type": "yoco", "torch_dtype": "bfloat16", "hidden_act": "silu", "vocab_size": 128, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 5, "num_self_layers": 2, "sliding_window": 8,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 10000,
      "max_position_embeddings": 4096, "tie_word_embeddings": false, "eos_token_id": 1})json");
    config_["num_self_layers"] = self_layers;
    SynthOptions options;
    options.seed = 23;
    write_synth(config_, "config", folder_.path(), options);
  }

  std::shared_ptr<Model> open(NumericSettings settings, int threads = 1) const {
    return open_folder(folder_.path(), settings, threads);
  }
  std::string folder() const { return folder_.path(); }
  const nlohmann::json& config() const { return config_; }
  std::string weights() const { return (folder_ / "model.safetensors").string(); }

 private:
  nlohmann::json config_;
  const TempFolder folder_;
};

inline const SmallYoco& small_yoco() {
  static const SmallYoco model;
  return model;
}

}  // namespace seekline::golden
