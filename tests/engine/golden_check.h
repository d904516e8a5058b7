// How the logits of a golden model are held against the reference's, mode by mode and row by row.
#pragma once

#include <algorithm>

#include "engine/golden_model.h"
#include "engine/nudged_model.h"

namespace seekline::golden {

struct Mode {
  const char* name;
  NumericSettings settings;
};
constexpr Mode kExact{"exact", {Activations::kReference, Rows::kDeployed, Arithmetic::kF32}};
constexpr Mode kPlain{"plain", {Activations::kPlain, Rows::kDeployed, Arithmetic::kF32}};
constexpr Mode kPlainF32Rows{"plain", {Activations::kPlain, Rows::kF32, Arithmetic::kF32}};
constexpr Mode kPure{"pure", {Activations::kPlain, Rows::kF32, Arithmetic::kF32}};
constexpr Mode kBF16Rows{"bf16rows", {Activations::kPlain, Rows::kDeployed, Arithmetic::kF32}};

// A clean row may still differ where one of the engine's own values stands at a rounding, expert or selection
// edge that the reference's runs passed on the other side. Then the same model with its f32 parameters moved
// by 1 to 16 units in the last place (relative 2^-23 to 2^-19) passes it on the other side too, sooner or
// later; a wrong formula does not. Rows that stay away from the reference in all these evaluations fail.
constexpr unsigned kNudges = 20, kNudgesPerStep = 4;

class EdgeRows {
 public:
  EdgeRows(std::string folder, const Mode& mode, std::size_t vocab)
      : folder_(std::move(folder)), mode_(mode), vocab_(vocab) {}

  void settle(const SafetensorsLite& expected, const GoldenCase& c, std::vector<std::size_t> rows) {
    for (unsigned seed = 0; seed < kNudges && !rows.empty(); ++seed) {
      const RowCheck check = compare_rows(expected, c, mode_.name, nudged_logits(seed, c), vocab_);
      std::erase_if(rows, [&](std::size_t row) {
        return std::ranges::find(check.outliers, row) == check.outliers.end();
      });
    }
    EXPECT_TRUE(rows.empty()) << c.id << " " << mode_.name << ": row " << c.rows[rows.empty() ? 0 : rows[0]]
                              << " differs and stands at no rounding edge";
  }

 private:
  std::vector<float> nudged_logits(unsigned seed, const GoldenCase& c) {
    while (models_.size() <= seed) {
      const auto next = static_cast<unsigned>(models_.size());
      const NudgedModel nudged(folder_, 1u << (next / kNudgesPerStep), next + 1);
      models_.push_back(open_folder(nudged.folder(), mode_.settings));  // mapped: the files may go
    }
    return all_logits(*models_[seed], c.tokens, {c.tokens.size()});
  }

  std::string folder_;
  Mode mode_;
  std::size_t vocab_;
  std::vector<std::shared_ptr<Model>> models_;
};

/// The model in `folder` against the golden logits `name`. `at_edges`: cases with rows at an edge that chance
/// may bring; 0: one, and one more in ten.
inline void check_folder(const std::string& folder, const std::string& name, const Mode& mode,
                         int at_edges = 0) {
  const std::shared_ptr<Model> model = open_folder(folder, mode.settings);
  const SafetensorsLite expected(model_folder(name) + "/expected.safetensors");
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  EdgeRows edges(folder, mode, vocab);
  int clean = 0, cases = 0, cases_at_edges = 0;
  for (const GoldenCase& c : golden_cases(model_folder(name))) {
    if (!expected.has(c.id + "/" + mode.name + "/logits")) continue;
    const RowCheck check =
        compare_rows(expected, c, mode.name, all_logits(*model, c.tokens, {c.tokens.size()}), vocab);
    edges.settle(expected, c, check.outliers);
    if (check.unclean > 0) {
      EXPECT_LE(std::sqrt(check.unclean_error), 3 * std::sqrt(check.unclean_noise))
          << c.id << " " << mode.name;
    }
    clean += check.clean;
    ++cases;
    cases_at_edges += !check.outliers.empty();
  }
  EXPECT_GT(clean, 0);
  EXPECT_LE(cases_at_edges, at_edges > 0 ? at_edges : 1 + cases / 10)
      << "of " << cases << " cases stand at an edge, too many for chance";
}

inline void check_model(const std::string& name, const Mode& mode, int at_edges = 0) {
  check_folder(model_folder(name), name, mode, at_edges);
}

}  // namespace seekline::golden
