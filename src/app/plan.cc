// seekline plan: what a model's cache stores and reads, from its config alone.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/plan_text.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/presets.h"
#include "model/network.h"

namespace seekline {
namespace {

struct PlanOptions {
  std::string folder, preset, rows = "deployed";
  std::int64_t context = 131072;
  bool json = false, tables = false;
};

void plan(const PlanOptions& o) {
  if (o.folder.empty() == o.preset.empty())
    throw Error(ErrorCode::kUsage, "plan needs either --model or --preset");
  const std::string subject = o.preset.empty() ? o.folder + "/config.json" : "preset " + o.preset;
  const nlohmann::json config = o.preset.empty() ? read_config_file(subject) : preset_config(o.preset);
  const Rows rows = o.rows == "deployed" ? Rows::kDeployed : o.rows == "bf16" ? Rows::kBF16 : Rows::kF32;
  const CachePlan plan = plan_of_config(config, subject, rows);
  if (o.json) {
    fmt::print("{}\n", plan_json(plan, o.context).dump(1));
  } else {
    fmt::print("{}", plan_text(plan, o.context, o.tables));
  }
}

}  // namespace

void add_plan_command(CLI::App& app) {
  const auto o = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "what a model's cache stores and reads, by its cache plan");
  command->add_option("--model", o->folder, "checkpoint folder (only its config.json is read)");
  command->add_option("--preset", o->preset, "a released geometry, such as v41-flash");
  command->add_option("--context", o->context, "tokens of context")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--rows", o->rows, "deployed, bf16 or f32")
      ->check(CLI::IsMember({"deployed", "bf16", "f32"}))
      ->capture_default_str();
  command->add_flag("--tables", o->tables, "every store and layer as well");
  command->add_flag("--json", o->json, "as JSON, stores and layers included");
  command->callback([o] { plan(*o); });
}

}  // namespace seekline
