// Values for a session: variables from weights, inputs from what a run is given, a fill for the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NamedValues.h"
#include "Option.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// What --fill takes.
std::vector<std::string> fillKinds();

/// What a run is given values by.
struct ValueFlags {
  std::vector<std::string> inputs;  // NAME=SPEC
  std::string archive;              // of inputs
  std::vector<std::string> weights; // archives
  bool partialWeights = false;      // variables that none of them has are left to their initializers
  std::string fill;                 // "", rand, zeros, ones or iota
  std::optional<uint64_t> seed;
  bool cast = false;
  std::string program = "opc run"; // for messages

  /// The options that fill this.
  std::vector<Option> options();
  /// The inputs. Errors: as NamedValues::open().
  Result<NamedValues> open() const { return NamedValues::open(inputs, archive, "--input"); }
};

/// An input or variable without a value.
struct MissingValue {
  std::string name, type;
  bool isVariable = false, isOpen = false;
};
/// OPC0004 for all that is missing, with the command that would run.
Status missingValues(const std::vector<MissingValue> &missing, const std::vector<std::string> &command,
                     const std::string &program);

/// OPC0005 for a value of nothing that takes one, with the nearest name: an input's, or that of anything else in `all`.
Status noSuchPort(const std::string &name, const std::vector<std::string> &inputs, const std::vector<std::string> &all,
                  const std::string &flag);

struct ValueReport {
  struct Row {
    std::string name, kind, origin;
    user_op::TensorDesc desc;
  };
  std::vector<Row> rows;
  std::vector<std::string> notes; // keys that nothing wanted
};

/// Sets variables and feeds inputs of a session. `command` is the command line so far, for the error that lists what is
/// missing (OPC0004) and says how to fill it. Files of weights that lack a variable are OPC0717. Inputs and variables
/// named in `fedElsewhere` are left alone.
Result<ValueReport> giveValues(Session &session, const NamedValues &inputs, const ValueFlags &flags,
                               const std::vector<std::string> &command, const std::set<std::string> &fedElsewhere = {});

} // namespace opc::cli
