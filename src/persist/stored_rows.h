// The prefix store as the engine's row source.
#pragma once

#include <memory>

#include "engine/row_source.h"
#include "persist/prefix_store.h"

namespace seekline {

class StoredRows final : public RowSource {
 public:
  StoredRows(std::shared_ptr<PrefixStore> store, DecoderMode mode, const CachePlan& plan);

  Found find(std::span<const std::int32_t> tokens) override;
  std::string load(std::span<const std::int32_t> tokens, std::int64_t rings_at_most,
                   Timeline& timeline) override;
  void save(const Timeline& timeline, bool rings) override;
  void hurry() override { store_->hurry(); }

 private:
  std::shared_ptr<PrefixStore> store_;
  SnapshotPart part_;  // windows that prompts need
};

}  // namespace seekline
