// Generated graphs, as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::bench {

/// The linked ops, frozen.
Registry linkedRegistry();
/// The graph as a plan, with `regions` or a task for every op; empty, with what is wrong on standard error, when it
/// does not compile.
std::string planOf(const Registry &registry, const std::string &name, const std::string &graph, bool regions = true);

// The ops of a graph file, in f32.
std::string input(const std::string &name, const std::vector<int64_t> &dims);
std::string variable(const std::string &name, const std::vector<int64_t> &dims);
std::string output(const std::string &tensor, const std::string &name = "y");
/// `outputs`: arguments parted by blanks, each with one tensor, NAME/ARGUMENT_0.
std::string op(const std::string &name, const std::string &type,
               const std::vector<std::pair<std::string, std::string>> &inputs, const std::string &outputs,
               const std::string &attrs = "");
std::string attr(const std::string &name, const std::string &value);

/// x -> scalar_add -> scalar_add -> ... on f32[width].
std::string addChain(int ops, int width);
/// Each op adds two earlier tensors, chosen by a fixed generator; f32[width].
std::string randomDag(int ops, int width);
/// Unary and binary functions of f32[8, 8] by turns, of tensors near and far: loops that keep much alive, so that
/// regions are tried and undone.
std::string elementwiseDag(int ops);
/// Half of the ops read one tensor, each in its own way; the others join their results in pairs. f32[8, 8].
std::string fan(int ops);
/// matmul, bias_add, relu by turns, 8x8 weights; `ops` user ops in all.
std::string mlpChain(int ops);

} // namespace opc::bench
