// What Python asks of a compilation, as the pipeline takes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "RegistrySnapshot.h"
#include "SharedBytes.h"

#include <pybind11/pybind11.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc::python {

/// What came with a graph that was read: values of its variables. Nothing that Python looks into.
struct GraphValues {
  std::shared_ptr<const std::map<std::string, StoredTensor>> tensors;
  std::function<Status()> check; // of the file that they lie in, before they are read

  /// check() and that the files beside it are as long as they were; without values nothing.
  Status areAsTheyWere() const;
};

/// The file of a model, which is mapped: its weights are read when a session is made.
class ModelFile {
public:
  ModelFile(std::string path, SharedBytes bytes);
  const SharedBytes &bytes() const { return bytes_; }
  /// Whether it is as it was. Errors: OPC0323.
  Status check() const;

private:
  std::string path_;
  SharedBytes bytes_;
  std::vector<int64_t> identity_; // empty: no regular file
};

void bindCompileOptions(pybind11::module_ &module);

/// The exception for what a pipeline has found.
[[noreturn]] void raiseFindings(const Pipeline &pipeline);

} // namespace opc::python
