#include "persist/model_identity.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "core/mapped_file.h"
#include "kernels/table.h"
#include "model/network.h"

namespace seekline {
namespace {

constexpr std::uint64_t kFingerprintSeed = 0x6c65646f6d;
constexpr std::int64_t kSampleBytes = 4096;
constexpr std::size_t kMostSamples = 4096;

class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(state_.get()); }
  void add(const void* bytes, std::size_t count) { XXH3_128bits_update(state_.get(), bytes, count); }
  void add(const std::string& text) {
    const std::uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  std::string hex() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    Key key;
    std::memcpy(key.bytes.data(), canonical.digest, key.bytes.size());
    return key.hex();
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(), &XXH3_freeState};
};

std::string hash_of_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return "none";
  const MappedFile file = MappedFile::open(path);
  Hasher hasher;
  hasher.add(file.data(), static_cast<std::size_t>(file.bytes()));
  return hasher.hex();
}

// Routed experts are most of a large model's tensors; all the others are sampled each.
bool is_expert(const Tensor& tensor) { return tensor.name.find(".experts.") != std::string::npos; }

// Every tensor that is no expert's, and every n-th of the others, as the number of samples allows.
std::vector<const Tensor*> sampled_tensors(const Checkpoint& checkpoint) {
  std::vector<const Tensor*> chosen, experts;
  for (const Tensor& tensor : checkpoint.tensors()) (is_expert(tensor) ? experts : chosen).push_back(&tensor);
  const std::size_t room = kMostSamples - std::min(kMostSamples / 2, chosen.size());
  const std::size_t stride = std::max<std::size_t>(1, (experts.size() + room - 1) / room);
  for (std::size_t i = 0; i < experts.size(); i += stride) chosen.push_back(experts[i]);
  return chosen;
}

std::string hash_of_weights(const Checkpoint& checkpoint) {
  Hasher hasher;
  for (const Checkpoint::File& file : checkpoint.files()) {
    hasher.add(file.path.filename().string());
    hasher.add(&file.bytes, sizeof file.bytes);
  }
  for (const Tensor& tensor : checkpoint.tensors()) {
    hasher.add(tensor.name + ' ' + std::string(dtype_name(tensor.dtype)) + ' ' + tensor.shape_text());
  }
  if (checkpoint.tensor_bytes() <= kWholeWeightsBytes) {
    for (const Tensor& tensor : checkpoint.tensors())
      hasher.add(tensor.data, static_cast<std::size_t>(tensor.bytes));
    return hasher.hex();
  }
  // From the middle of each: ends are more often padding.
  const std::vector<const Tensor*> tensors = sampled_tensors(checkpoint);
  const auto sample = [](const Tensor& t) {
    const std::int64_t count = std::min(kSampleBytes, t.bytes);
    return std::pair{t.data + (t.bytes - count) / 2, count};
  };
  for (const Tensor* tensor : tensors) map_will_need(sample(*tensor).first, sample(*tensor).second);
  for (const Tensor* tensor : tensors)
    hasher.add(sample(*tensor).first, static_cast<std::size_t>(sample(*tensor).second));
  return hasher.hex();
}

const char* name_of(Activations a) { return a == Activations::kReference ? "reference" : "plain"; }
const char* name_of(Arithmetic a) { return a == Arithmetic::kFast ? "fast" : "f32"; }
const char* name_of(Rows r) {
  switch (r) {
    case Rows::kDeployed:
      return "deployed";
    case Rows::kBF16:
      return "bf16";
    case Rows::kF32:
      return "f32";
    case Rows::kFp8:
      return "fp8";
  }
  return "?";
}

const char* name_of(LatentOrder order) {
  switch (order) {
    case LatentOrder::kAuto:
      return "auto";
    case LatentOrder::kAbsorb:
      return "absorb";
    case LatentOrder::kExpand:
      return "expand";
    case LatentOrder::kPreMerge:
      return "pre-merge";
    case LatentOrder::kByCost:
      return "by cost";
  }
  return "?";
}

}  // namespace

ModelIdentity identify_model(const Model& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  const NumericSettings& settings = model.options().settings;
  nlohmann::ordered_json about;
  about["model_type"] = model.network().family();
  about["config"] = hash_of_file(checkpoint.folder() / "config.json");
  about["tokenizer"] = hash_of_file(checkpoint.folder() / "tokenizer.json");
  about["weights"] = hash_of_weights(checkpoint);
  about["weight_bytes"] = checkpoint.tensor_bytes();
  about["activations"] = name_of(settings.activations);
  about["rows"] = name_of(settings.rows);
  about["arithmetic"] = name_of(settings.arithmetic);
  about["latent_order"] = name_of(settings.latent_order);
  // Vector levels differ in last bits, and so may compilers and libraries of mathematics.
  about["kernels"] = isa_name(kernels().isa);
  about["compiler"] = __VERSION__;
  about["libc"] = gnu_get_libc_version();
  about["row_version"] = kRowVersion;
  const std::string text = about.dump();
  return {key_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, kFingerprintSeed), text};
}

std::string identity_difference(const std::string& stored, const std::string& wanted) {
  static constexpr std::array<std::pair<const char*, const char*>, 11> kParts{
      {{"model_type", "another family"},
       {"config", "another config.json"},
       {"tokenizer", "another tokenizer.json"},
       {"weights", "other weights"},
       {"activations", "another setting of activations"},
       {"rows", "another row format"},
       {"arithmetic", "another arithmetic"},
       {"latent_order", "another order of latent products"},
       {"kernels", "kernels of another vector level"},
       {"compiler", "an engine of another compiler"},
       {"libc", "another C library"}}};
  const auto a = nlohmann::json::parse(stored, nullptr, false),
             b = nlohmann::json::parse(wanted, nullptr, false);
  if (!a.is_object() || !b.is_object()) return "a model that it does not describe";
  for (const auto& [name, clause] : kParts)
    if (a.value(name, nlohmann::json()) != b.value(name, nlohmann::json())) return clause;
  return "an engine of another row version";
}

}  // namespace seekline
