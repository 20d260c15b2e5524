// A graph or plan that a command writes.
// SPDX-License-Identifier: Apache-2.0
#include "GraphOutput.h"

#include "FileBytes.h"
#include "OpManifest.h"

namespace opc::cli {

/// The manifest of Python operators beside `from`, to beside `path`.
static Status copyManifest(const std::string &path, const std::string &from) {
  const std::string manifest = python::findManifest(from), copy = python::manifestBeside(path);
  if (manifest.empty() || manifest == copy) return Status::ok();
  OPC_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::open(manifest));
  return writeFileAtomically(copy, file.view());
}

Status writeGraphOutput(const std::string &path, const std::string &bytes, const std::string &from) {
  OPC_RETURN_IF_ERROR(writeFileAtomically(path, bytes));
  return copyManifest(path, from);
}

Status writeGraphOutput(Invocation &invocation, const std::string &path, const std::string &bytes,
                        const std::string &from) {
  if (path != "-") return writeGraphOutput(path, bytes, from);
  invocation.terminal().file(bytes);
  return Status::ok();
}

Status writePlanOutput(Invocation &invocation, const Pipeline &pipeline, const std::string &path,
                       const std::string &from) {
  if (path == "-")
    return pipeline.writePlan([&](std::string_view piece) { return invocation.terminal().file(piece), Status::ok(); });
  AtomicFile file;
  OPC_RETURN_IF_ERROR(file.open(path));
  OPC_RETURN_IF_ERROR(
      pipeline.writePlan([&](std::string_view piece) { return file.write(piece.data(), piece.size()); }));
  OPC_RETURN_IF_ERROR(file.commit());
  return copyManifest(path, from);
}

} // namespace opc::cli
