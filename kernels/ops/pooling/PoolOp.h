// What the definitions of poolings and of their gradients share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PoolWindows.h"

namespace opc::ops {

/// Definition of max_pool_Nd, avg_pool_Nd and adaptive_avg_poolNd, N = dims: arguments, attributes, rules.
std::function<void(OpRegistry &)> poolDefinition(int dims, Pooling kind);
/// The same for their gradients, which have the attributes of the pooling. `doc` ends in a full stop.
std::function<void(OpRegistry &)> poolGradDefinition(int dims, Pooling kind, const std::string &doc);

/// What the documentation of max_pool_Nd and avg_pool_Nd says of windows.
extern const char *const kWindowsDoc;

/// Attributes of a sample; what is empty is not given.
struct SampleWindow {
  Ints kernel, stride = {}, padding = {};
  bool channelsLast = false;
};
Case windowed(Case sample, const SampleWindow &window);

} // namespace opc::ops
