// The table of kernels: every level that this CPU has proves itself; a broken one is found out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/levels.h"
#include "seekline/error.h"

namespace seekline {
namespace {

const Isa kAll[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

TEST(Dispatch, EveryLevelOfThisCpuProvesItself) {
  for (Isa isa : kAll) {
    if (!isa_supported(isa)) {
      EXPECT_THROW(kernels_at(isa), Error) << isa_name(isa);
      continue;
    }
    EXPECT_EQ(kernels_at(isa).isa, isa);
    EXPECT_EQ(kernel_problem(kernels_at(isa)), std::nullopt) << isa_name(isa);
  }
  EXPECT_TRUE(isa_supported(kernels().isa));
}

TEST(Dispatch, ProofFindsAProductThatIsOff) {
  Kernels broken = kPortableKernels;
  broken.matmul = [](const Matmul& m) {
    kPortableKernels.matmul(m);
    m.y[m.tokens - 1][m.row_end - 1] *= 1.0001f;
  };
  EXPECT_THAT(kernel_problem(broken).value_or(""), ::testing::HasSubstr("product"));
}

TEST(Dispatch, ProofFindsAProductThatDependsOnTheNumberOfTokens) {
  Kernels broken = kPortableKernels;
  broken.matmul = [](const Matmul& m) {
    kPortableKernels.matmul(m);
    if (m.tokens > 1) m.y[0][m.row_end - 1] = std::nextafter(m.y[0][m.row_end - 1], 1e9f);
  };
  EXPECT_THAT(kernel_problem(broken).value_or(""), ::testing::HasSubstr("number of tokens"));
}

TEST(Dispatch, ProofFindsWrongRowsAttentionIndexAndExp) {
  Kernels rows = kPortableKernels;
  rows.encode_row = [](const RowFormat& format, const float* values, std::uint8_t* data,
                       std::uint8_t* scale) {
    kPortableKernels.encode_row(format, values, data, scale);
    data[format.data_bytes() - 1] ^= 1;
  };
  EXPECT_THAT(kernel_problem(rows).value_or(""), ::testing::HasSubstr("rows"));
  Kernels attention = kPortableKernels;
  attention.attend = [](const AttendTile& tile) {
    AttendTile half = tile;
    half.queries = tile.queries - 1;
    kPortableKernels.attend(half);
  };
  EXPECT_THAT(kernel_problem(attention).value_or(""), ::testing::HasSubstr("attention"));
  Kernels index = kPortableKernels;
  index.index_scores = [](const IndexScores& args) {
    IndexScores fewer = args;
    fewer.heads = args.heads - 1;
    kPortableKernels.index_scores(fewer);
  };
  EXPECT_THAT(kernel_problem(index).value_or(""), ::testing::HasSubstr("index"));
  Kernels vectors = kPortableKernels;
  vectors.exp = [](const float* x, std::int64_t n, float* out) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = 1 + x[i];
  };
  EXPECT_THAT(kernel_problem(vectors).value_or(""), ::testing::HasSubstr("exp"));
}

}  // namespace
}  // namespace seekline
