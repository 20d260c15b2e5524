// How many nodes an ONNX model has when the calls of its functions are written out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx.pb.h"

#include <cstddef>

namespace opc::onnx {

/// At least so many, known without writing one out: bodies count once whatever their turns, and counting ends at `most`
/// + 1.
size_t writtenNodes(const Model &model, size_t most);

} // namespace opc::onnx
