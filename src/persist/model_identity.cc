#include "persist/model_identity.h"

#include <array>

#include <gnu/libc-version.h>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "core/mapped_file.h"
#include "core/thread_pool.h"
#include "kernels/table.h"
#include "model/network.h"
#include "persist/hasher.h"
#include "persist/weights_hash.h"

namespace seekline {
namespace {

constexpr std::uint64_t kFingerprintSeed = 0x6c65646f6d;

std::string hash_of_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return "none";
  const MappedFile file = MappedFile::open(path);
  Hasher hasher;
  hasher.add(file.data(), static_cast<std::size_t>(file.bytes()));
  return hasher.key().hex();
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
  if (model.options().settings.latent_order == LatentOrder::kByCost)
    throw Error(
        ErrorCode::kUsage,
        "with the latent order by cost, rows depend on how a text is cut into runs and cannot be kept on "
        "disk; choose another --latent-order, or leave --store and --session out");
  const Checkpoint& checkpoint = model.checkpoint();
  const NumericSettings& settings = model.options().settings;
  const int threads = model.options().threads;
  nlohmann::ordered_json about;
  about["model_type"] = model.network().family();
  about["config"] = hash_of_file(checkpoint.folder() / "config.json");
  about["tokenizer"] = hash_of_file(checkpoint.folder() / "tokenizer.json");
  about["weights"] = hash_weights(checkpoint, threads > 0 ? threads : default_threads()).hex;
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
