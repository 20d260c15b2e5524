// What nobody reads goes, but inputs and writes.
// RUN: opc-opt %s --opc-eliminate-dead-ops --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @dead
// CHECK: opc.input "x"
// CHECK: opc.input "unused"
// CHECK-NOT: opc.variable
// CHECK-NOT: "exp"
// CHECK: "relu"
func.func @dead() {
  %x = opc.input "x" : tensor<2xf32>
  %unused = opc.input "unused" : tensor<2xf32>
  %w = opc.variable "w" : tensor<2xf32>
  %e = opc.user_op "exp"(x: %w) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  %r = opc.user_op "relu"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%r) : tensor<2xf32>
  return
}

// -----

// CHECK-LABEL: func.func @writes
// CHECK: "assign"
func.func @writes() {
  %x = opc.input "x" : tensor<2xf32>
  %w = opc.variable "w" : tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %x) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  opc.output "y"(%x) : tensor<2xf32>
  return
}
