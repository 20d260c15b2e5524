// DLPack's tensors and opc's: element types, layouts, copies, ownership.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "opc.h"

namespace opc::capi {

/// DLPack's name of an element type; zero bits for one that it has no name for.
opc_dl_data_type dlpackType(DataType type);
/// Whether it has a shape that can be read. Errors: OPC0618.
Status checkRank(const opc_dl_tensor &tensor, const std::string &what);
/// Whether a caller's tensor may stand where `expected` is wanted: on the CPU, of the same type and shape, not null.
/// Errors: OPC0618, OPC0703, OPC0704.
Status checkDlpack(const opc_dl_tensor &tensor, const user_op::TensorDesc &expected, const std::string &what);
/// The first element.
const char *dlpackData(const opc_dl_tensor &tensor);
/// Whether kernels can read it as it lies: row-major without gaps, and no bool, whose bytes may be others than 0 and 1.
bool isReadable(const opc_dl_tensor &tensor);
/// The elements in row-major order, bools as 0 or 1. The tensor has passed checkDlpack().
void copyFromDlpack(const opc_dl_tensor &tensor, void *to);
/// A tensor of the caller's own.
opc_dl_managed_tensor *giveAway(HostTensor tensor);

} // namespace opc::capi
