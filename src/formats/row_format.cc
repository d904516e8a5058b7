#include "seekline/row_format.h"

#include <fmt/format.h>

#include "formats/rows.h"

namespace seekline {
namespace {

const char* kind_name(RowKind kind) {
  switch (kind) {
    case RowKind::kF32:
      return "f32";
    case RowKind::kBF16:
      return "bf16";
    case RowKind::kMlaFp8:
      return "mla_fp8";
    case RowKind::kIndexFp8:
      return "index_fp8";
    case RowKind::kV4Fp8:
      return "v4_fp8";
    case RowKind::kV41Fp8:
      return "v41_fp8";
    case RowKind::kV41Fp4:
      return "v41_fp4";
    case RowKind::kIndexFp4:
      return "index_fp4";
  }
  return "?";
}

}  // namespace

std::int64_t RowFormat::data_bytes() const {
  const RowLayout layout = row_layout(*this);
  return layout.code_bytes() + layout.plain * layout.plain_bytes;
}

std::int64_t RowFormat::scale_bytes() const {
  const RowLayout layout = row_layout(*this);
  const int bytes = layout.blocks * layout.block_scale_bytes;
  return kind == RowKind::kV4Fp8 ? (bytes + 7) / 8 * 8 : bytes;
}

std::string RowFormat::name() const {
  return fmt::format("{}{}({})", kind_name(kind), pow2_scales ? "_pow2" : "", width);
}

}  // namespace seekline
