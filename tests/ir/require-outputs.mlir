// A graph with an output passes as it is.
// RUN: opc-opt %s --opc-require-outputs | FileCheck %s

// CHECK: opc.output "y"
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  opc.output "y"(%x) : tensor<4xf32>
  return
}
