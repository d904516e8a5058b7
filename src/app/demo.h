// `seekline run --demo`: the shipped model looks facts up in a long document, and what its cache took.
#pragma once

#include <filesystem>
#include <string>

#include "app/reuse_options.h"
#include "seekline/model.h"

namespace seekline {

/// The model that the repository carries, models/nano-v41: beside the sources the program was built from, or
/// where SEEKLINE_MODELS says. Throws Error(kNotFound).
std::filesystem::path shipped_model_folder();

/// Asks the questions of `folder`/demo (document.txt, questions.json; where it has none, those of the shipped
/// model) and prints answers and figures. Every figure is of the cache plan, the ledger or a reuse report.
void run_demo(const std::filesystem::path& folder, const ModelOptions& model, const ReuseOptions& reuse);

}  // namespace seekline
