// XXH3-128 of bytes that come in pieces.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <xxhash.h>

#include "persist/keys.h"

namespace seekline {

class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(state_.get()); }
  void add(const void* bytes, std::size_t count) { XXH3_128bits_update(state_.get(), bytes, count); }
  /// With its length, so that texts in a row are told apart.
  void add(const std::string& text) {
    const std::uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  Key key() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    Key key;
    std::memcpy(key.bytes.data(), canonical.digest, key.bytes.size());
    return key;
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(), &XXH3_freeState};
};

}  // namespace seekline
