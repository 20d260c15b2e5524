// First values of variables, by OneFlow's InitializerConf.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TensorFill.h"
#include "graph.pb.h"

namespace opc {

/// Fills `t` as the initializer says. Draws depend on `key` and the element's index alone. fan_in = product of
/// dimensions 1.., fan_out = dimension 0 times the kernel's extent (data_format channels_first: dimensions 2..;
/// channels_last: 1 to last - 1; empty: the tensor must be a matrix), as in OneFlow's kernel_util.cpp. `empty` gives
/// zeros. OPC0615 when initializer and tensor do not fit together.
Status initializeTensor(const graph::InitializerConf &conf, HostTensor *t, FillKey key);

} // namespace opc
