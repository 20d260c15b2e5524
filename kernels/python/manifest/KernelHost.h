// What runs operators that are written in Python, as an interface: nothing on this side needs Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace opc::python {

/// Where the code of an operator is and what it is called with.
struct OpCode {
  std::string op, module, qualifiedName, contentHash, file;
  int line = 0;
  std::vector<user_op::ArgDef> inputs, outputs;
  std::vector<std::string> attrs;
  std::vector<std::string> written; // inputs that the kernel may write
  bool isolated = false;
  double timeoutSeconds = 0;
};

/// A task whose errors have ids of their own.
class PythonTask : public user_op::BoundKernel {
public:
  /// `followed`: a task of Python's begins on this thread as soon as this one ends well.
  virtual Status call(DeviceCtx *ctx, bool followed) = 0;
  void Run(DeviceCtx *ctx) final { (void)call(ctx, false); } // the host calls call()
};

class KernelHost {
public:
  virtual ~KernelHost() = default;
  /// The shape rule of an op whose rule is Python's.
  virtual Status infer(const OpCode &code, user_op::InferContext *ctx) = 0;
  /// Finds the code. `kernel` holds it; bind() makes the task of one place in a graph.
  virtual Status create(const OpCode &code, std::unique_ptr<user_op::OpKernel> *kernel) = 0;
  virtual Status bind(const user_op::OpKernel &kernel, user_op::KernelBindContext *ctx,
                      std::unique_ptr<user_op::BoundKernel> *task) = 0;
  /// Imports the Python files of a folder and gives the manifest of the ops that they define.
  virtual Result<std::string> describe(const std::string &folder) = 0;
};

/// Who runs Python in this process: opened when the first op needs it. Without an opener nothing runs Python.
void setKernelHostOpener(std::function<Result<KernelHost *>()> opener);
/// Errors: OPC0921 when this process was given no folder to run code from, and those of the opener.
Result<KernelHost *> kernelHost(const std::string &op);
bool hasKernelHost();

} // namespace opc::python
