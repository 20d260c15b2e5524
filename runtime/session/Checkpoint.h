// Checkpoints: the variables of a session, optimizer state among them, and how far training has come, as one
// safetensors file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc {

/// How far training has come. In the file it is the metadata: step, epoch, seed and the notes, all as text.
struct TrainingState {
  int64_t step = 0;                         // steps completed
  int64_t epoch = 0;                        // epochs completed
  uint64_t seed = 0;                        // SessionOptions::seed
  std::map<std::string, std::string> notes; // the program's own, by keys other than those
};

/// The variables of a session and how far it was, at one moment: what is written may be tried twice, or go to two
/// files.
class Checkpoint {
public:
  /// Copies every variable. On several ranks a call of the whole job: the tensors are whole, and the first rank has
  /// them. Errors: OPC0612 (a variable without a value).
  static Result<Checkpoint> take(Session &session, TrainingState state);
  /// The variables that hold a NaN or an infinity.
  std::vector<std::string> notFinite() const;
  /// Atomic and durable: the file appears under its name when it is complete and on the disk; before that, and after
  /// any failure, the name stands for what it stood for. Any reader of safetensors can read it, and `opc run
  /// --weights`. Does nothing on ranks but the first. Errors: OPC0707.
  Status write(const std::string &path) const;

private:
  std::vector<std::pair<std::string, HostTensor>> variables_;
  TrainingState state_;
  bool isFirst_ = true;
};

/// Takes a checkpoint and writes it.
Status saveCheckpoint(const std::string &path, Session &session, const TrainingState &state);

/// Sets every variable of `session` from the file, and the session's step. Nothing is set unless the file's tensors are
/// the session's variables, with their dtypes and shapes. Errors: those of reading, OPC0711 (no checkpoint), OPC0712 (a
/// variable is missing, or the session has none for a tensor), OPC0703, OPC0704.
Result<TrainingState> loadCheckpoint(const std::string &path, Session &session);

} // namespace opc
