// Weights by the part of the model that reads them: for `inspect` and `bench`.
#pragma once

#include <vector>

#include "checkpoint/deepseek_v4.h"
#include "checkpoint/deepseek_v41.h"
#include "checkpoint/llama.h"
#include "checkpoint/yoco.h"
#include "model/network.h"

namespace seekline {

std::vector<WeightPart> v41_weight_parts(const V41Config& config, const V41Weights& weights);
std::vector<WeightPart> v4_weight_parts(const V4Config& config, const V4Weights& weights);
std::vector<WeightPart> llama_weight_parts(const LlamaConfig& config, const LlamaWeights& weights);
std::vector<WeightPart> yoco_weight_parts(const YocoConfig& config, const YocoWeights& weights);

}  // namespace seekline
