// Saving and loading of checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "Checkpoint.h"
#include "PrintableText.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"
#include "opc/Version.h"

#include <charconv>
#include <cmath>
#include <set>

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

Result<Checkpoint> Checkpoint::take(Session &session, TrainingState state) {
  Checkpoint c;
  c.isFirst_ = session.rank() == 0;
  for (const PortInfo &v : session.interface().variables) {
    OPC_ASSIGN_OR_RETURN(HostTensor value, session.variable(v.name));
    if (c.isFirst_) c.variables_.emplace_back(v.name, std::move(value));
  }
  c.state_ = std::move(state);
  return c;
}

std::vector<std::string> Checkpoint::notFinite() const {
  std::vector<std::string> names;
  for (const auto &[name, value] : variables_) {
    if (!contains<types::Floating>(value.dtype())) continue;
    const bool has = visit<types::Floating>(value.dtype(), [&value = value](auto tag) {
      using T = typename decltype(tag)::type;
      const T *values = value.template as<T>();
      bool any = false;
      for (int64_t i = 0; i < value.elemCount(); ++i) any |= !std::isfinite(numberOf(values[i]));
      return any;
    });
    if (has) names.push_back(name);
  }
  return names;
}

Status Checkpoint::write(const std::string &path) const {
  if (!isFirst_) return Status::ok();
  NamedTensors tensors;
  for (const auto &[name, value] : variables_) tensors.push_back({name, &value});
  std::map<std::string, std::string> metadata = state_.notes;
  metadata[kFormatKey] = kFormat;
  metadata["step"] = std::to_string(state_.step);
  metadata["epoch"] = std::to_string(state_.epoch);
  metadata["seed"] = std::to_string(state_.seed);
  return writeCheckpointFile(path, std::move(tensors), metadata);
}

Status saveCheckpoint(const std::string &path, Session &session, const TrainingState &state) {
  Result<Checkpoint> checkpoint = Checkpoint::take(session, state);
  if (!checkpoint) return Status(checkpoint.status()).withContext("saving " + path);
  return checkpoint->write(path);
}

namespace {

/// OPC0712: the file's tensors are not the graph's variables.
Status checkVariables(const std::string &path, const TensorArchive &archive, const std::vector<PortInfo> &variables) {
  const std::string help =
      "resume with the graph that the checkpoint was made with, or start from its values with --weights " + path;
  std::set<std::string> known;
  for (const PortInfo &v : variables) {
    known.insert(v.name);
    if (!archive.contains(v.name))
      return Status(StatusCode::kUsage, "OPC0712",
                    path + " has no variable '" + v.name + "' (" + v.desc.toString() + "): it is of another graph")
          .withHelp(help);
  }
  for (const TensorEntry &e : archive.entries())
    if (!known.count(e.key))
      return Status(StatusCode::kUsage, "OPC0712",
                    path + " has a variable '" + e.key + "' that the graph does not have: it is of another graph")
          .withHelp(help);
  return Status::ok();
}

} // namespace

Result<TrainingState> loadCheckpoint(const std::string &path, Session &session) {
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  TrainingState state;
  state.notes = archive->metadata();
  auto format = state.notes.find(kFormatKey);
  if (format == state.notes.end())
    return Status(StatusCode::kUsage, "OPC0711", path + " holds tensors but is not a checkpoint of a training run")
        .withHelp("start from its values with --weights " + path);
  if (format->second != kFormat)
    return Status(StatusCode::kUsage, "OPC0711",
                  path + " has the format '" + printableName(format->second) +
                      "', and this opc (" OPC_VERSION_STRING ") goes on from checkpoints of the format '" + kFormat +
                      "'")
        .withHelp("start from its values with --weights " + path);
  if (!number(state.notes, "step", &state.step) || !number(state.notes, "epoch", &state.epoch) ||
      !number(state.notes, "seed", &state.seed) || state.step < 0)
    return Status(StatusCode::kInvalidGraph, "OPC0711",
                  path + ": the checkpoint does not say how far training had come");
  for (const char *key : {kFormatKey, "step", "epoch", "seed"}) state.notes.erase(key);

  // All of them are read and checked before the first one is set.
  const auto &variables = session.interface().variables;
  OPC_RETURN_IF_ERROR(checkVariables(path, *archive, variables));
  std::vector<HostTensor> values;
  for (const PortInfo &v : variables) {
    TensorReadOptions options;
    options.voidType = v.desc.data_type();
    OPC_ASSIGN_OR_RETURN(HostTensor value, archive->read(v.name, options));
    OPC_RETURN_IF_ERROR(checkTensor(value, v.desc, "variable '" + v.name + "' of " + path));
    values.push_back(std::move(value));
  }
  for (size_t i = 0; i < values.size(); ++i) OPC_RETURN_IF_ERROR(session.restoreVariable(variables[i].name, values[i]));
  OPC_RETURN_IF_ERROR(session.setStep(state.step));
  return state;
}

} // namespace opc
