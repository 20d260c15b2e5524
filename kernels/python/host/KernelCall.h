// The call of one Python kernel at one place in a graph: arguments made once, results checked each time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelHost.h"
#include "NumpyTensors.h"
#include "PyRef.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::python {

/// Turns the Python error that is set into a Status, and clears it: OPC0622 with the traceback.
Status takePythonError(const std::string &op);

/// " (ops.py:7, in twice)": where a function is defined; "" for one of opc's own.
std::string definedAt(PyObject *function);

/// What _host.find() answers: the function and how it wants its arguments.
struct KernelFunction {
  PyRef function;
  std::vector<std::string> positional, keywords; // inputs, attributes, "@position"
  bool takesOut = false;                         // writes its outputs, given as `out`
  bool noneIsZero = false;                       // gradients: None stands for zeros
  KernelFunction share() const { return {PyRef::share(function.get()), positional, keywords, takesOut, noneIsZero}; }
};

/// Task of a Python kernel.
class KernelCall final : public PythonTask {
public:
  /// With the turn.
  static Result<std::unique_ptr<KernelCall>> make(const OpCode &code, KernelFunction function,
                                                  user_op::KernelBindContext *ctx);
  ~KernelCall() override;
  Status call(DeviceCtx *ctx, bool followed) override;

private:
  /// The memory that a kernel sees of a tensor whose element type numpy has not: its numbers in f32.
  struct Widened {
    DataType type;
    void *tensor;
    std::vector<float> numbers;
    void read();
    void write() const;
  };
  struct Input {
    user_op::TensorDesc desc; // that the kernel sees
    void *data = nullptr;
    bool writable = false;
    std::string name;
    PyRef array;
    Py_ssize_t references = 0; // that are the task's own
    std::optional<Widened> widened = {};
  };
  struct Output {
    user_op::TensorDesc desc;
    void *data = nullptr;
    std::string name;
    PyRef array; // with takesOut
    Py_ssize_t references = 0;
    CopyTarget target;
    std::optional<Widened> widened = {};
  };
  static std::optional<Widened> widen(user_op::TensorDesc *desc, void **data);

  KernelCall() = default;
  void readWidened();
  void writeWidened() const;
  Status addTensors(const OpCode &code, user_op::KernelBindContext *ctx);
  Status addArguments(const OpCode &code, user_op::KernelBindContext *ctx);
  Result<PyRef> argument(const OpCode &code, const std::string &name, user_op::KernelBindContext *ctx);
  Status fillPosition(DeviceCtx *ctx);
  PyRef apart(PyObject *result) const;
  Status storeAll(PyObject *result);
  Status storeNamed(PyObject *result);
  Status refuseOther(PyObject *result) const;
  Status storeOne(PyObject *value, Output &output);
  Status refuseKept();
  Status withPlace(const Status &failure) const;

  std::string op_, node_;
  KernelFunction function_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::pair<std::string, Output *>> declared_; // the same, with null for the optional ones that are absent
  std::vector<PyRef> owned_;                               // what arguments_ points to
  std::vector<PyObject *> arguments_;                      // one place in front for vectorcall
  std::vector<std::pair<size_t, std::string>> lists_; // arguments that are tuples of inputs, and what they are called
  PyRef keywordNames_;
  size_t positionals_ = 0;
  bool isWidened_ = false; // a tensor or more
  bool isInPlace_ = false; // an output of several has the memory of an input
  int position_ = -1;      // the argument that is (seed, step)
};

} // namespace opc::python
