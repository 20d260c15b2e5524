// `opc compile --calibrate`: this machine as a cluster file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"
#include "Registry.h"

#include <string>
#include <string_view>

namespace opc::cli {

struct Calibration {
  simulate::ClusterDescription cluster;
  bool isFirst = true; // of the processes that have measured: the one that speaks and writes
};

/// Measures this machine with as many ranks at work as the plan (the bytes of a plan file) has, and the ops of the plan
/// on their own shapes. The ranks are threads of this process, or, under a launcher, its processes: then every one of
/// them makes the call and all get the result. Errors: those of the communicator, OPC0748.
Result<Calibration> calibrate(std::string_view planFile, const Registry &registry);

/// What was found, for people.
std::string calibrationText(const simulate::ClusterDescription &cluster);

} // namespace opc::cli
