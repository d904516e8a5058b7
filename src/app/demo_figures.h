// The figures that stand beside the demo's answers.
#pragma once

#include <string>

#include "seekline/session.h"

namespace seekline {

/// The attention that a model's cache started from: keys and values of every head, every layer and every
/// token in bf16, at the layers, heads and channels of `plan`.
CachePlan mha_of_the_same_size(const CachePlan& plan);

/// Three tables: cache bytes by store at the session's length beside such an MHA's, rows that one more token
/// read by store (this computes that token), and the evaluations of the `cold` prompt with and without CED.
std::string demo_figures(Session& session, const ReuseReport& cold);

}  // namespace seekline
