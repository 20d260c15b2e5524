// Views and casts that keep the type go, unless control orders them.
// RUN: opc-opt %s --opc-remove-no-ops --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @no_ops
// CHECK-NOT: reshape
// CHECK-NOT: cast
func.func @no_ops() {
  %x = opc.input "x" : tensor<2x3xf32>
  %r = opc.user_op "reshape"(in: %x) -> (out) {shape = #opc.shape<[2, 3]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = opc.user_op "cast"(in: %r) -> (out) {dtype = #opc.dtype<2>, pin_memory = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  opc.output "y"(%c) : tensor<2x3xf32>
  return
}

// -----

// CHECK-LABEL: func.func @ordered
// CHECK: reshape
func.func @ordered() {
  %x = opc.input "x" : tensor<2x3xf32>
  %r = opc.user_op "reshape"(in: %x) -> (out) {shape = #opc.shape<[2, 3]>} attributes {opc.ordered} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  opc.output "y"(%r) : tensor<2x3xf32>
  return
}
