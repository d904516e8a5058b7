// What a stored prefix depends on besides its tokens, as one fingerprint (docs/prefix-store.md,
// "Fingerprint").
#pragma once

#include <string>

#include "persist/keys.h"
#include "seekline/model.h"

namespace seekline {

/// Raised whenever the engine computes other bytes of cache rows from the same model and tokens than before.
inline constexpr int kRowVersion = 1;

struct ModelIdentity {
  Key fingerprint;
  /// JSON of everything the fingerprint is made of, for people and for saying what differs. Holds no path.
  std::string description;
};

/// Reads config.json, tokenizer.json and weights of the model's folder. Throws Error(kIo), and Error(kUsage)
/// for a model whose rows depend on how a text is cut (LatentOrder::kByCost).
ModelIdentity identify_model(const Model& model);

/// One clause that says what tells two descriptions apart, such as "other weights".
std::string identity_difference(const std::string& stored, const std::string& wanted);

}  // namespace seekline
