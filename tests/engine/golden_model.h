// Golden models: cases, expected tensors, and the row-by-row comparison that
// tests/golden/data/models/README.md asks for.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cache/sequence_cache.h"
#include "engine/executor.h"
#include "golden/safetensors_lite.h"
#include "seekline/model.h"

namespace seekline::golden {

struct GoldenCase {
  std::string id;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> rows;      // stored positions of logits
  std::vector<std::int64_t> tap_rows;  // stored positions of taps
};

inline std::string model_folder(const std::string& name) {
  return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/models/" + name;
}

/// The model that is part of the product.
inline std::string shipped_folder() { return std::string(SEEKLINE_SOURCE_DIR) + "/models/nano-v41"; }

inline std::vector<GoldenCase> golden_cases(const std::string& folder) {
  std::ifstream file(folder + "/cases.json");
  const auto json = nlohmann::json::parse(file);
  std::vector<GoldenCase> cases;
  for (const auto& entry : json.at("cases")) {
    GoldenCase c;
    c.id = entry.at("id");
    c.tokens = entry.at("tokens").get<std::vector<std::int32_t>>();
    for (std::size_t i = 0; i < c.tokens.size(); ++i) c.rows.push_back(static_cast<std::int64_t>(i));
    if (entry.contains("rows")) c.rows = entry["rows"].get<std::vector<std::int64_t>>();
    c.tap_rows = entry.contains("tap_rows") ? entry["tap_rows"].get<std::vector<std::int64_t>>() : c.rows;
    cases.push_back(std::move(c));
  }
  return cases;
}

inline std::shared_ptr<Model> open_folder(const std::string& folder, NumericSettings settings,
                                          int threads = 1, std::int64_t batch_tokens = 512) {
  ModelOptions options;
  options.settings = settings;
  options.threads = threads;
  options.batch_tokens = batch_tokens;
  return Model::open(folder, options);
}

inline std::shared_ptr<Model> open_model(const std::string& name, NumericSettings settings, int threads = 1,
                                         std::int64_t batch_tokens = 512) {
  return open_folder(model_folder(name), settings, threads, batch_tokens);
}

/// Logits of every position, computed in runs that end at the given lengths (the last one being all tokens).
inline std::vector<float> all_logits(Model& model, const std::vector<std::int32_t>& tokens,
                                     const std::vector<std::size_t>& ends, Taps* taps = nullptr) {
  SequenceCache cache(model.pages());
  const std::size_t vocab = static_cast<std::size_t>(model.vocab_size());
  std::vector<float> logits(tokens.size() * vocab);
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    std::vector<std::int32_t> wanted(end - begin);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int32_t>(i);
    Run run;
    run.cache = &cache;
    run.first_position = static_cast<std::int64_t>(begin);
    run.tokens = std::span(tokens).subspan(begin, end - begin);
    run.wanted_logits = wanted;
    model.executor().forward(
        {&run, 1},
        {logits.data() + begin * vocab, static_cast<std::int64_t>(end - begin), model.vocab_size()}, taps);
    begin = end;
  }
  return logits;
}

inline std::vector<std::size_t> in_chunks(std::size_t tokens, std::size_t chunk) {
  std::vector<std::size_t> ends;
  for (std::size_t at = chunk; at < tokens; at += chunk) ends.push_back(at);
  ends.push_back(tokens);
  return ends;
}

inline double rms_difference(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return std::sqrt(sum / static_cast<double>(n));
}

struct RowCheck {
  int clean = 0, unclean = 0;
  std::vector<std::size_t> outliers;  // indices into the case's rows
  double worst_clean = 0, unclean_error = 0, unclean_noise = 0;
};

/// Compares the stored rows of one case and mode. `got` holds all positions.
inline RowCheck compare_rows(const SafetensorsLite& expected, const GoldenCase& c, const std::string& mode,
                             const std::vector<float>& got, std::size_t vocab) {
  const std::vector<float> want = expected.at(c.id + "/" + mode + "/logits").as<float>();
  std::vector<float> noise(c.rows.size(), 0);
  const std::string own = c.id + "/" + mode + "/noise_rows";
  const std::string of_mode =
      c.id + "/noise_" + mode;  // V4: rows flip more often without the activation quantizer
  const std::string common = c.id + "/noise_rows";
  if (expected.has(own)) {
    noise = expected.at(own).as<float>();
  } else if (expected.has(of_mode)) {
    noise.assign(noise.size(), expected.at(of_mode).as<float>()[1]);
  } else if (expected.has(common)) {
    noise = expected.at(common).as<float>();
  } else {
    noise.assign(noise.size(), expected.at(c.id + "/noise").as<float>()[1]);
  }
  RowCheck check;
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    const float* row = got.data() + static_cast<std::size_t>(c.rows[i]) * vocab;
    const double error = rms_difference(row, want.data() + i * vocab, vocab);
    EXPECT_TRUE(std::isfinite(error)) << c.id << " " << mode << " row " << c.rows[i];
    if (noise[i] < 1e-5f) {
      ++check.clean;
      check.worst_clean = std::max(check.worst_clean, error);
      if (!(error <= std::max(10.0 * static_cast<double>(noise[i]), 2e-5))) check.outliers.push_back(i);
    } else {
      ++check.unclean;
      check.unclean_error += error * error;
      check.unclean_noise += static_cast<double>(noise[i]) * static_cast<double>(noise[i]);
    }
  }
  return check;
}

}  // namespace seekline::golden
