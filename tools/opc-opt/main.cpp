// opc-opt: runs passes over IR text, for lit tests and for people who write passes.
// SPDX-License-Identifier: Apache-2.0
#include "Passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include <cstdio>

int main(int argc, char **argv) {
  opc::Registry registry;
  if (opc::Status s = registry.addLinked(); !s.isOk()) {
    std::fprintf(stderr, "opc-opt: %s\n", s.toString().c_str());
    return 70;
  }
  registry.freeze();
  mlir::DialectRegistry dialects;
  opc::registerOpcPasses(&dialects, registry);
  return mlir::failed(mlir::MlirOptMain(argc, argv, "opc-opt: passes of opc\n", dialects)) ? 1 : 0;
}
