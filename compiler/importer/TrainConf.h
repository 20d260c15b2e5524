// OneFlow's TrainConf in a Job -> what the grad phase is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "TrainingConfig.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc {

struct JobTraining {
  std::vector<std::string> losses;
  TrainingConfig config;
};

/// The training that the job asks for; nothing without a train_conf that has optimizers. Errors go to `diagnostics`
/// (OPC0507).
std::optional<JobTraining> readTraining(const GraphFile &file, std::vector<Diagnostic> *diagnostics);
/// Of the variables that have one, also where it is not the job that asks for training.
std::map<std::string, Regularizer> readRegularizers(const GraphFile &file);

} // namespace opc
