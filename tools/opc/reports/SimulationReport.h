// `opc compile --simulate`: reading the cluster, and the report as text and JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Simulation.h"

#include <string>
#include <string_view>

namespace opc::cli {

/// A cluster file. Errors: OPC0706, OPC0740 to OPC0743.
Result<simulate::ClusterDescription> readClusterFile(const std::string &path);

/// The plan (the bytes of a plan file) on the cluster; `trace`: a file for chrome://tracing, or empty.
Result<simulate::SimulationReport> simulatePlan(std::string_view planFile, const Registry &registry,
                                                const simulate::ClusterDescription &cluster, const std::string &trace);

std::string simulationText(const simulate::SimulationReport &report);
Json simulationJson(const simulate::SimulationReport &report);

} // namespace opc::cli
