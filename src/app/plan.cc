// seekline plan: what a model's cache stores and reads, from its config alone; of one model or of many side
// by side.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/plan_compare.h"
#include "app/plan_text.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/presets.h"
#include "model/network.h"

namespace seekline {
namespace {

// The line of DeepSeek's caches, and the attention it started from.
const std::vector<std::string>& generations() {
  static const std::vector<std::string> names{"mha-v2size", "v1-67b",   "v2",       "v3",
                                              "v32",        "v4-flash", "v41-flash"};
  return names;
}

struct PlanOptions {
  std::string folder, plot, rows = "deployed";
  std::vector<std::string> presets, set;
  std::int64_t context = 131072;
  bool compare = false, json = false, csv = false, tables = false;
};

Rows rows_of(const std::string& name) {
  return name == "bf16"  ? Rows::kBF16
         : name == "f32" ? Rows::kF32
         : name == "fp8" ? Rows::kFp8
                         : Rows::kDeployed;
}

NamedPlan plan_from(const nlohmann::json& config, const std::string& name, const std::string& subject,
                    Rows rows) {
  return {name, plan_of_config(config, subject, rows), plan_of_config(config, subject, Rows::kBF16)};
}

std::vector<NamedPlan> plans_of(const PlanOptions& o) {
  ConfigOverrides overrides;
  overrides.set = key_values(o.set);
  std::vector<NamedPlan> plans;
  const auto add = [&](nlohmann::json config, const std::string& name, const std::string& subject) {
    apply_overrides(config, overrides);
    plans.push_back(plan_from(config, name, subject, rows_of(o.rows)));
  };
  if (!o.folder.empty())
    add(read_config_file(o.folder + "/config.json"), o.folder, o.folder + "/config.json");
  for (const std::string& name : o.presets.empty() && o.folder.empty() ? generations() : o.presets)
    add(preset_config(name), name, "preset " + name);
  return plans;
}

void plan(PlanOptions o) {
  if (o.folder.empty() && o.presets.empty() && !o.compare && !o.csv && o.plot.empty())
    throw Error(ErrorCode::kUsage, "plan needs --model or --preset, or --compare for all generations");
  const std::vector<NamedPlan> plans = plans_of(o);
  const bool many = o.compare || plans.size() > 1;
  if (!o.plot.empty()) plot_plans(plans, o.plot);
  if (o.csv) {
    fmt::print("{}", compare_csv(plans));
  } else if (o.json) {
    fmt::print("{}\n", (many ? compare_json(plans, o.context) : plan_json(plans[0].plan, o.context)).dump(1));
  } else if (many && (o.compare || o.plot.empty())) {
    fmt::print("{}", compare_text(plans, o.context));
  } else if (o.plot.empty()) {
    fmt::print("{}", plan_text(plans[0].plan, o.context, o.tables));
  }
}

}  // namespace

void add_plan_command(CLI::App& app) {
  const auto o = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "what a model's cache stores and reads, by its cache plan");
  command->add_option("--model", o->folder, "checkpoint folder (only its config.json is read)");
  command->add_option("--preset", o->presets,
                      "a geometry such as v41-flash (see synth --help); several are compared");
  command->add_flag("--compare", o->compare,
                    "side by side; without --preset: every generation, from MHA to V4.1");
  command->add_option("--context", o->context, "tokens of context")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
      ->capture_default_str();
  command->add_option("--rows", o->rows, "deployed, bf16, f32, or fp8 (V3.2's rows in V2 and V3)")
      ->check(CLI::IsMember({"deployed", "bf16", "f32", "fp8"}))
      ->capture_default_str();
  command->add_option("--set", o->set, "key=value in the config; value as JSON (may be given several times)");
  command->add_flag("--tables", o->tables, "every store and layer as well");
  CLI::Option* json = command->add_flag("--json", o->json, "as JSON; of one model with stores and layers");
  command->add_flag("--csv", o->csv, "a line per model and context, 128 to 1,048,576: the data of the curves")
      ->excludes(json);
  command->add_option("--plot", o->plot,
                      "draw stored bytes, reads and cache size to FILE.svg or FILE.png (gnuplot)");
  command->callback([o] { plan(*o); });
}

}  // namespace seekline
