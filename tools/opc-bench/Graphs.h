// Generated graphs, as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::bench {

/// x -> scalar_add -> scalar_add -> ... on f32[width].
std::string addChain(int ops, int width);
/// Each op adds two earlier tensors, chosen by a fixed generator; f32[width].
std::string randomDag(int ops, int width);
/// matmul, bias_add, relu by turns, 8x8 weights; `ops` user ops in all.
std::string mlpChain(int ops);

} // namespace opc::bench
