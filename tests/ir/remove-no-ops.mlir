// Views and casts that keep the type go, unless control orders them, or a cast keeps what a variable was.
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

// -----

// CHECK-LABEL: func.func @written
// CHECK: %[[W:.*]] = opc.variable "w"
// CHECK-NOT: identity
// CHECK: "cast"(in: %[[W]])
// CHECK: opc.output "old"
// CHECK: opc.output "now"(%[[W]])
func.func @written() {
  %w = opc.variable "w" : tensor<3xf32>
  %x = opc.input "x" : tensor<3xf32>
  %v = opc.user_op "identity"(in: %w) -> (out) : (tensor<3xf32>) -> tensor<3xf32>
  %c = opc.user_op "cast"(in: %v) -> (out) {dtype = #opc.dtype<2>, pin_memory = false} : (tensor<3xf32>) -> tensor<3xf32>
  opc.user_op "assign"(ref: %w, value: %x) -> () : (tensor<3xf32>, tensor<3xf32>) -> ()
  opc.output "old"(%c) : tensor<3xf32>
  opc.output "now"(%v) : tensor<3xf32>
  return
}
