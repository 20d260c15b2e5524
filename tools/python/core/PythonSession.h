// A session as Python has it: arrays in, steps without the GIL, arrays out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ArrayConversion.h"
#include "CompiledProgram.h"
#include "DlpackArrays.h"
#include "Session.h"

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::python {

class PythonSession {
public:
  PythonSession(std::shared_ptr<CompiledProgram> program, const SessionOptions &options, bool codegen, bool allowTf32);
  ~PythonSession();
  PythonSession(const PythonSession &) = delete;
  PythonSession &operator=(const PythonSession &) = delete;

  /// Feeds what is given, runs, and gives every output.
  pybind11::dict run(const pybind11::dict &inputs, pybind11::handle steps);
  /// An output of the last run.
  HostTensor fetch(const std::string &output);
  void setStep(int64_t step);
  pybind11::array variable(const std::string &name);
  void setVariable(const std::string &name, pybind11::handle value);
  /// Variables from a file of tensors; how many. OPC0717 unless all of them are there, or `isPart`, which
  /// is the user's `parameter`.
  size_t loadVariables(const std::string &path, bool isPart, const std::string &parameter);
  void saveVariables(const std::string &path);

  const SessionInterface &interface() const { return interface_; }
  Session &session() { return session_; }

  /// One thread at a time: a second one gets an exception and not a race.
  struct Use {
    explicit Use(PythonSession *s);
    ~Use() { session->inUse_ = false; }
    PythonSession *session;
  };
  /// Steps without the GIL; signals are looked at between them.
  void runSteps(int64_t steps);

private:
  size_t inputIndex(pybind11::handle name) const;
  void feed(size_t input, pybind11::handle value);
  void read(size_t input, AnyArray array);
  Status takeSizes(const PortInfo &port, const AnyArray &array);
  void readAgain();
  pybind11::object output(size_t i) const;

  std::shared_ptr<CompiledProgram> program_;
  /// What an input was fed, which each run reads: where it lies, or from a copy that each run makes anew.
  struct Fed {
    AnyArray array;
    const void *lent; // null for a copy
    int64_t call;     // that has read it
  };
  std::vector<std::optional<Fed>> fed_; // before the session, which reads them until it is gone
  int64_t call_ = 0;
  Session session_;
  SessionInterface interface_;
  pybind11::list inputKeys_, outputKeys_;
  std::atomic<bool> inUse_{false};
};

} // namespace opc::python
