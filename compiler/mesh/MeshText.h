// Decisions about a mesh as the command line and pass options write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MeshRequest.h"

namespace opc {

/// "fc*.w=S(0)", "x=[S(0), B]"; nothing for anything else.
std::optional<SbpPin> parsePin(const std::string &text);

/// "emb*,layer0*=0-3,6": globs of ops, and ranks in order.
std::optional<StagePlacement> parseStage(const std::string &text);

} // namespace opc
