// Saving and loading of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "Checkpoint.h"

#include <charconv>

namespace opc {
namespace {

constexpr char kFormatKey[] = "format", kFormat[] = "opc-checkpoint-1";

template <class T> bool number(const std::map<std::string, std::string> &metadata, const char *key, T *out) {
  auto it = metadata.find(key);
  if (it == metadata.end()) return false;
  const std::string &text = it->second;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *out);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

} // namespace

Status saveCheckpoint(const std::string &path, Session &session, const TrainingState &state) {
  const auto &variables = session.interface().variables;
  std::vector<HostTensor> values;
  values.reserve(variables.size()); // pointers into it are kept
  NamedTensors tensors;
  for (const VariableInfo &v : variables) {
    Result<HostTensor> value = session.variable(v.name);
    if (!value) return Status(value.status()).withContext("saving " + path);
    values.push_back(std::move(*value));
    tensors.push_back({v.name, &values.back()});
  }
  if (session.rank() != 0) return Status::ok();
  std::map<std::string, std::string> metadata = state.notes;
  metadata[kFormatKey] = kFormat;
  metadata["step"] = std::to_string(state.step);
  metadata["epoch"] = std::to_string(state.epoch);
  metadata["seed"] = std::to_string(state.seed);
  return writeCheckpointFile(path, std::move(tensors), metadata);
}

Result<TrainingState> loadCheckpoint(const std::string &path, Session &session) {
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  TrainingState state;
  state.notes = archive->metadata();
  auto format = state.notes.find(kFormatKey);
  if (format == state.notes.end() || format->second != kFormat)
    return Status(StatusCode::kUsage, "OPC0711", path + " holds tensors but is not a checkpoint of a training run")
        .withHelp("start from its values with --weights " + path);
  if (!number(state.notes, "step", &state.step) || !number(state.notes, "epoch", &state.epoch) ||
      !number(state.notes, "seed", &state.seed) || state.step < 0)
    return Status(StatusCode::kInvalidGraph, "OPC0711",
                  path + ": the checkpoint does not say how far training had come");
  for (const char *key : {kFormatKey, "step", "epoch", "seed"}) state.notes.erase(key);

  // All of them are read and checked before the first one is set.
  const auto &variables = session.interface().variables;
  std::vector<HostTensor> values;
  for (const VariableInfo &v : variables) {
    if (!archive->contains(v.name))
      return Status(StatusCode::kUsage, "OPC0712",
                    path + " has no variable '" + v.name + "' (" + v.desc.toString() + "): it is of another graph")
          .withHelp(
              "resume with the graph that the checkpoint was made with, or start from its values with --weights " +
              path);
    TensorReadOptions options;
    options.voidType = v.desc.data_type();
    OPC_ASSIGN_OR_RETURN(HostTensor value, archive->read(v.name, options));
    OPC_RETURN_IF_ERROR(checkTensor(value, v.desc, "variable '" + v.name + "' of " + path));
    values.push_back(std::move(value));
  }
  for (size_t i = 0; i < values.size(); ++i) OPC_RETURN_IF_ERROR(session.setVariable(variables[i].name, values[i]));
  OPC_RETURN_IF_ERROR(session.setStep(state.step));
  return state;
}

} // namespace opc
