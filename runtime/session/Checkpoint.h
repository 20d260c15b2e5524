// Checkpoints: the variables of a session, optimizer state among them, and how far training has come, as one
// safetensors file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

#include <map>
#include <string>

namespace opc {

/// How far training has come. In the file it is the metadata: step, epoch, seed and the notes, all as text.
struct TrainingState {
  int64_t step = 0;                         // steps completed
  int64_t epoch = 0;                        // epochs completed
  uint64_t seed = 0;                        // SessionOptions::seed
  std::map<std::string, std::string> notes; // the program's own, by keys other than those
};

/// Writes every variable of `session` and `state`. Atomic and durable: the file appears under its name when it is
/// complete and on the disk; before that, and after any failure, the name stands for what it stood for. Any reader of
/// safetensors can read it, and `opc run --weights`. On several ranks a call of the whole job: the tensors are whole,
/// and the first rank writes. Errors: OPC0612 (a variable without a value), OPC0707.
Status saveCheckpoint(const std::string &path, Session &session, const TrainingState &state);

/// Sets every variable of `session` from the file, and the session's step. Nothing is set unless all of them are there
/// with their dtypes and shapes. Tensors that the session does not have are left alone. Errors: those of reading,
/// OPC0711 (no checkpoint), OPC0712 (a variable is missing), OPC0703, OPC0704.
Result<TrainingState> loadCheckpoint(const std::string &path, Session &session);

} // namespace opc
