// What convolutions and poolings share on their way into ONNX, which has channels first alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxEmission.h"

namespace opc::onnx_export {

/// By the attribute data_format.
bool isChannelsLast(Emission &e);
/// [n, c, ...] of [n, ..., c], where `isLast`; and back.
Wire channelsFirst(Emission &e, const Wire &x, bool isLast);
Wire channelsBack(Emission &e, const Wire &x, bool toLast);
/// A list by spatial axis; one that is left out is `otherwise` everywhere.
std::vector<int64_t> listOf(Emission &e, const char *attr, size_t size, int64_t otherwise);

/// A linear map of one axis: matrix[from * to], in f64, row by row.
Wire mapped(Emission &e, const Wire &x, int64_t axis, const std::vector<double> &matrix, int64_t to);

} // namespace opc::onnx_export
