// YOCO has no outside reference: the engine is held against a plain recomputation in f64 that keeps no cache.
#include <bit>
#include <functional>
#include <random>

#include "engine/small_yoco.h"
#include "model/network.h"
#include "seekline/session.h"

namespace seekline::golden {
namespace {

using Matrix = std::vector<std::vector<double>>;

std::vector<std::int32_t> random_tokens(std::size_t count) {
  std::mt19937 random(5);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 128);
  return tokens;
}

double round_to_bf16(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u));
}

// The definition, all tokens at once: no cache, no chunks, f64. `round` is what a stored key or value
// becomes.
class PlainYoco {
 public:
  PlainYoco(const SmallYoco& model, std::function<double(double)> round)
      : weights_(model.weights()), config_(model.config()), round_(std::move(round)) {}

  Matrix logits(const std::vector<std::int32_t>& tokens) const {
    const Matrix embed = tensor("model.embed_tokens.weight");
    Matrix h;
    for (const std::int32_t token : tokens) h.push_back(embed[static_cast<std::size_t>(token)]);
    Matrix keys, values;
    for (int layer = 0; layer < at("num_hidden_layers"); ++layer) {
      const std::string p = "model.layers." + std::to_string(layer) + ".";
      const bool self = layer < at("num_self_layers");
      if (layer == at("num_self_layers")) {
        const Matrix m = norm(h, "model.memory.norm.weight");
        keys = stored(rotated(times(m, "model.memory.k_proj.weight")));
        values = stored(times(m, "model.memory.v_proj.weight"));
      }
      const Matrix x = norm(h, p + "input_layernorm.weight");
      const std::string attention = p + (self ? "self_attn." : "cross_attn.");
      if (self) {
        keys = stored(rotated(times(x, attention + "k_proj.weight")));
        values = stored(times(x, attention + "v_proj.weight"));
      }
      const Matrix q = rotated(times(x, attention + "q_proj.weight"));
      const std::size_t span = self ? static_cast<std::size_t>(at("sliding_window")) : tokens.size();
      add(h, times(attend(q, keys, values, span), attention + "o_proj.weight"));
      add(h, feed_forward(norm(h, p + "post_attention_layernorm.weight"), p + "mlp."));
    }
    return times(norm(h, "model.norm.weight"), "lm_head.weight");
  }

 private:
  int at(const char* key) const { return config_.at(key).get<int>(); }

  Matrix tensor(const std::string& name) const {
    const LiteTensor& t = weights_.at(name);
    const std::vector<std::uint16_t> halves = t.as<std::uint16_t>();
    const std::size_t cols = static_cast<std::size_t>(t.cols());
    Matrix m(halves.size() / cols, std::vector<double>(cols));
    for (std::size_t i = 0; i < halves.size(); ++i)
      m[i / cols][i % cols] = static_cast<double>(std::bit_cast<float>(std::uint32_t{halves[i]} << 16));
    return m;
  }
  Matrix times(const Matrix& x, const std::string& name) const {
    const Matrix w = tensor(name);
    Matrix y(x.size(), std::vector<double>(w.size(), 0.0));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t o = 0; o < w.size(); ++o)
        for (std::size_t i = 0; i < x[t].size(); ++i) y[t][o] += x[t][i] * w[o][i];
    return y;
  }
  Matrix norm(Matrix x, const std::string& name) const {
    const std::vector<double> weight = tensor(name)[0];
    for (std::vector<double>& row : x) {
      double squares = 0;
      for (const double v : row) squares += v * v;
      const double factor = 1 / std::sqrt(squares / static_cast<double>(row.size()) + 1e-6);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] *= factor * weight[i];
    }
    return x;
  }
  Matrix rotated(Matrix x) const {
    const std::size_t width = static_cast<std::size_t>(at("head_dim")), half = width / 2;
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t head = 0; head < x[t].size(); head += width)
        for (std::size_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
          const double a = x[t][head + i], b = x[t][head + half + i];
          x[t][head + i] = a * std::cos(angle) - b * std::sin(angle);
          x[t][head + half + i] = b * std::cos(angle) + a * std::sin(angle);
        }
    return x;
  }
  Matrix stored(Matrix x) const {
    for (std::vector<double>& row : x)
      for (double& v : row) v = round_(v);
    return x;
  }
  Matrix attend(const Matrix& q, const Matrix& keys, const Matrix& values, std::size_t span) const {
    const std::size_t width = static_cast<std::size_t>(at("head_dim"));
    const std::size_t group = static_cast<std::size_t>(at("num_attention_heads") / at("num_key_value_heads"));
    Matrix out(q.size(), std::vector<double>(q[0].size(), 0.0));
    for (std::size_t t = 0; t < q.size(); ++t)
      for (std::size_t head = 0; head < q[t].size() / width; ++head) {
        const std::size_t first = t + 1 > span ? t + 1 - span : 0, kv = head / group * width;
        std::vector<double> weight;
        double sum = 0;
        for (std::size_t s = first; s <= t; ++s) {
          double score = 0;
          for (std::size_t i = 0; i < width; ++i) score += q[t][head * width + i] * keys[s][kv + i];
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
          sum += weight.back();
        }
        for (std::size_t s = first; s <= t; ++s)
          for (std::size_t i = 0; i < width; ++i)
            out[t][head * width + i] += weight[s - first] / sum * values[s][kv + i];
      }
    return out;
  }
  Matrix feed_forward(const Matrix& x, const std::string& p) const {
    Matrix gate = times(x, p + "gate_proj.weight");
    const Matrix up = times(x, p + "up_proj.weight");
    for (std::size_t t = 0; t < gate.size(); ++t)
      for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] *= up[t][i] / (1 + std::exp(-gate[t][i]));
    return times(gate, p + "down_proj.weight");
  }
  static void add(Matrix& to, const Matrix& x) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < x[t].size(); ++i) to[t][i] += x[t][i];
  }

  const SafetensorsLite weights_;
  const nlohmann::json config_;
  const std::function<double(double)> round_;
};

double rms_from(const Matrix& want, const std::vector<float>& got) {
  double sum = 0;
  std::size_t i = 0;
  for (const std::vector<double>& row : want)
    for (const double v : row) {
      const double difference = v - static_cast<double>(got[i++]);
      sum += difference * difference;
    }
  return std::sqrt(sum / static_cast<double>(i));
}

constexpr NumericSettings kDeployed{Activations::kReference, Rows::kDeployed, Arithmetic::kF32};

TEST(Yoco, EqualsPlainRecomputation) {
  const std::vector<std::int32_t> tokens = random_tokens(60);
  const auto model = small_yoco().open({Activations::kPlain, Rows::kF32, Arithmetic::kF32});
  const Matrix want = PlainYoco(small_yoco(), [](double x) { return x; }).logits(tokens);
  EXPECT_LT(rms_from(want, all_logits(*model, tokens, {tokens.size()})), 2e-6);
}

TEST(Yoco, EqualsPlainRecomputationWithoutLowerLayers) {
  const SmallYoco model(0);
  const std::vector<std::int32_t> tokens = random_tokens(30);
  const auto opened = model.open({Activations::kPlain, Rows::kF32, Arithmetic::kF32});
  const Matrix want = PlainYoco(model, [](double x) { return x; }).logits(tokens);
  EXPECT_LT(rms_from(want, all_logits(*opened, tokens, in_chunks(tokens.size(), 7))), 2e-6);
}

TEST(Yoco, EqualsPlainRecomputationWithRowsAsDeployed) {
  const std::vector<std::int32_t> tokens = random_tokens(60);
  const auto model = small_yoco().open(kDeployed);
  const Matrix rounded = PlainYoco(small_yoco(), round_to_bf16).logits(tokens);
  const Matrix exact = PlainYoco(small_yoco(), [](double x) { return x; }).logits(tokens);
  const std::vector<float> got = all_logits(*model, tokens, {tokens.size()});
  // Single values stand at a rounding edge of bf16; all of them together would show as the other distance.
  EXPECT_LT(rms_from(rounded, got), 0.2 * rms_from(exact, got));
}

TEST(Yoco, ChunksThreadsAndDecodeGiveTheSameBits) {
  const std::vector<std::int32_t> tokens = random_tokens(70);
  for (const Arithmetic arithmetic : {Arithmetic::kFast, Arithmetic::kF32}) {
    NumericSettings settings = kDeployed;
    settings.arithmetic = arithmetic;
    const auto model = small_yoco().open(settings);
    const std::vector<float> whole = all_logits(*model, tokens, {tokens.size()});
    for (const std::size_t chunk : {1, 3, 8, 9, 32})
      EXPECT_TRUE(whole == all_logits(*model, tokens, in_chunks(tokens.size(), chunk))) << chunk;
    for (const int threads : {2, 3})
      EXPECT_TRUE(whole == all_logits(*small_yoco().open(settings, threads), tokens, {33, 69, 70}))
          << threads;
  }
}

// Counts the tokens that each layer is evaluated on.
class Evaluations final : public Taps {
 public:
  void floats(const char*, int layer, const TokenBatch& batch, MatrixView<const float>) override {
    by_layer[layer] += batch.count;
  }
  void integers(const char*, int, const TokenBatch&, MatrixView<const std::int64_t>) override {}
  void lists(const char*, int, const TokenBatch&, const Selection&) override {}
  void experts(int, const TokenBatch&, const Routing&) override {}

  std::map<int, std::int64_t> by_layer;
};

TEST(Yoco, PrefillStopsAtTheMemoryForAllButTheLastToken) {
  const std::vector<std::int32_t> tokens = random_tokens(50);
  const auto model = small_yoco().open(kDeployed);
  const std::vector<float> all = all_logits(*model, tokens, {tokens.size()});
  SequenceCache cache(model->pages());
  std::vector<float> logits(128);
  Evaluations evaluations;
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 30}, {30, 20}}) {
    const std::int32_t last = static_cast<std::int32_t>(count) - 1;
    seekline::Run run;
    run.cache = &cache;
    run.first_position = static_cast<std::int64_t>(first);
    run.tokens = std::span(tokens).subspan(first, count);
    if (first + count == tokens.size()) run.wanted_logits = {&last, 1};
    model->executor().forward({&run, 1}, {logits.data(), first + count == tokens.size() ? 1 : 0, 128},
                              &evaluations);
  }
  EXPECT_EQ(evaluations.by_layer[0], 50);
  EXPECT_EQ(evaluations.by_layer[1], 50);
  EXPECT_EQ(evaluations.by_layer[2], 1);
  EXPECT_EQ(evaluations.by_layer[4], 1);
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), all.end() - 128));
}

// Upper layers keep no state, so that running them on the last tokens alone leaves out nothing.
TEST(Yoco, BothDecoderModesAnswerWithTheSameBits) {
  const std::vector<std::int32_t> tokens = random_tokens(64);
  const auto last_rows = [&](DecoderMode mode) {
    ModelOptions options;
    options.settings = kDeployed;
    options.threads = 1;
    options.batch_tokens = 16;
    options.decoder = mode;
    Session session(Model::open(small_yoco().folder(), options));
    std::vector<float> rows;
    const auto keep = [&] { rows.insert(rows.end(), session.logits().begin(), session.logits().end()); };
    session.prompt(std::span(tokens).first(40));
    keep();
    session.extend(tokens[40]);
    keep();
    session.prompt(tokens);  // goes on from there
    keep();
    return rows;
  };
  const std::vector<float> exact = last_rows(DecoderMode::kExact);
  EXPECT_TRUE(exact == last_rows(DecoderMode::kCed));
  const auto model = small_yoco().open(kDeployed);
  const std::vector<float> all = all_logits(*model, tokens, {tokens.size()});
  for (const std::size_t position : {39, 40, 63}) {
    const auto row = static_cast<std::ptrdiff_t>(position == 63 ? 2 : position - 39) * 128;
    EXPECT_TRUE(std::equal(exact.begin() + row, exact.begin() + row + 128,
                           all.begin() + static_cast<std::ptrdiff_t>(position) * 128))
        << position;
  }
}

TEST(Yoco, OneStoreServesEveryUpperLayer) {
  const CachePlan plan = plan_of_config(small_yoco().config(), "config", Rows::kDeployed);
  EXPECT_EQ(plan.stored_bytes_per_token(), 2 * 2 * 16 * 2);
  EXPECT_EQ(plan.window_bytes(), 2 * 8 * 2 * 2 * 16 * 2);
  EXPECT_EQ(plan.first_decoder_layer(), 2);
  for (int layer = 2; layer < 5; ++layer) EXPECT_EQ(plan.layer_reads(layer, 100).main, 100 * 128);
}

TEST(Yoco, DecodeReadsAndWritesWhatThePlanSays) {
  const std::vector<std::int32_t> tokens = random_tokens(20);
  const auto model = small_yoco().open(kDeployed);
  const CachePlan& plan = model->plan();
  SequenceCache cache(model->pages());
  std::vector<float> logits(128);
  const std::int32_t first = 0;
  for (std::int64_t t = 0; t < 20; ++t) {
    cache.ledger().reset();
    seekline::Run run;
    run.cache = &cache;
    run.first_position = t;
    run.tokens = std::span(tokens).subspan(static_cast<std::size_t>(t), 1);
    run.wanted_logits = {&first, 1};
    model->executor().forward({&run, 1}, {logits.data(), 1, 128});
    for (int layer = 0; layer < 5; ++layer) {
      const Reads counted = cache.ledger().layer_reads(layer), planned = plan.layer_reads(layer, t + 1);
      ASSERT_EQ(counted.main, planned.main) << "layer " << layer << " token " << t;
      ASSERT_EQ(counted.window, planned.window) << "layer " << layer << " token " << t;
    }
    for (const Store& store : plan.stores)
      ASSERT_EQ(cache.ledger().bytes_written(store.id), store.row.bytes());
  }
}

TEST(Yoco, RefusesAModelWithoutUpperLayers) {
  nlohmann::json config = small_yoco().config();
  config["num_self_layers"] = 5;
  try {
    plan_of_config(config, "config", Rows::kDeployed);
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("num_self_layers is 5 of 5 layers"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace seekline::golden
