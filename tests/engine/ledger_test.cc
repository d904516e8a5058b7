// The running counters equal the plan, byte for byte.
#include "engine/golden_model.h"

namespace seekline::golden {
namespace {

void check_decode(const std::string& name, Rows rows, LatentOrder order = LatentOrder::kAuto) {
  NumericSettings settings;
  settings.rows = rows;
  settings.latent_order = order;
  const std::shared_ptr<Model> model = open_model(name, settings);
  const CachePlan& plan = model->plan();
  std::vector<std::int32_t> tokens;
  for (const GoldenCase& c : golden_cases(model_folder(name)))
    if (c.tokens.size() > tokens.size()) tokens = c.tokens;
  SequenceCache cache(model->pages());
  std::vector<float> logits(static_cast<std::size_t>(model->vocab_size()));
  const std::int32_t first = 0;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(tokens.size()); ++t) {
    cache.ledger().reset();
    Run run;
    run.cache = &cache;
    run.first_position = t;
    run.tokens = std::span(tokens).subspan(static_cast<std::size_t>(t), 1);
    run.wanted_logits = {&first, 1};
    model->executor().forward({&run, 1}, {logits.data(), 1, model->vocab_size()});
    for (int layer = 0; layer < static_cast<int>(plan.layers.size()); ++layer) {
      const Reads counted = cache.ledger().layer_reads(layer);
      const Reads planned = plan.layer_reads(layer, t + 1);
      ASSERT_EQ(counted.main, planned.main) << name << " layer " << layer << " token " << t;
      ASSERT_EQ(counted.window, planned.window) << name << " layer " << layer << " token " << t;
      ASSERT_EQ(counted.index_key, planned.index_key) << name << " layer " << layer << " token " << t;
    }
    for (const Store& store : plan.stores) {
      const std::int64_t new_rows = store.growing() ? store.rows_at(t + 1) - store.rows_at(t) : 1;
      ASSERT_EQ(cache.ledger().bytes_written(store.id), new_rows * store.row.bytes())
          << name << " " << store.name;
    }
  }
  for (const Store& store : plan.stores) {
    const std::int64_t pages = (cache.length() + kPageTokens - 1) / kPageTokens;
    const std::int64_t page = (kPageTokens / store.tokens_per_row * store.row.bytes() + 63) / 64 * 64;
    EXPECT_EQ(cache.allocated_bytes(store.id),
              store.growing() ? pages * page : store.ring_rows * store.row.bytes())
        << name << " " << store.name;
  }
}

TEST(LedgerEqualsPlan, OnV41Tiny) { check_decode("v41-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV41TinyLong) { check_decode("v41-tiny-long", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV41TinyMtpWithBF16Rows) { check_decode("v41-tiny-mtp", Rows::kBF16); }
TEST(LedgerEqualsPlan, OnV4Tiny) { check_decode("v4-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV4TinyWithF32Rows) { check_decode("v4-tiny", Rows::kF32); }
TEST(LedgerEqualsPlan, OnV2LiteTiny) { check_decode("v2lite-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV2TinyWithFp8Rows) { check_decode("v2-tiny", Rows::kFp8); }
TEST(LedgerEqualsPlan, OnV3Tiny) { check_decode("v3-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV3TinyExpanded) { check_decode("v3-tiny", Rows::kDeployed, LatentOrder::kExpand); }
TEST(LedgerEqualsPlan, OnV32Tiny) { check_decode("v32-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnV32TinyExpanded) { check_decode("v32-tiny", Rows::kDeployed, LatentOrder::kExpand); }
TEST(LedgerEqualsPlan, OnV32TinyFp8WithBF16Rows) { check_decode("v32-tiny-fp8", Rows::kBF16); }
TEST(LedgerEqualsPlan, OnLlamaGqa) { check_decode("llama-gqa-tiny", Rows::kDeployed); }
TEST(LedgerEqualsPlan, OnLlamaMha) { check_decode("llama-mha-tiny", Rows::kDeployed); }

}  // namespace
}  // namespace seekline::golden
