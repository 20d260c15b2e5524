// Equal ops are one, whatever their roles; variables never are.
// RUN: opc-opt %s --opc-merge-equal-ops --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @equal
// CHECK: %[[E:.*]] = opc.user_op "exp"
// CHECK-NOT: role
// CHECK-NOT: opc.user_op "exp"
// CHECK: opc.user_op "broadcast_add"(x: %[[E]], y: %[[E]])
func.func @equal() {
  %x = opc.input "x" : tensor<2xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("a")
  %b = opc.user_op "exp"(x: %x) -> (y) role backward : (tensor<2xf32>) -> tensor<2xf32> loc("b")
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// CHECK-LABEL: func.func @gradients
// What they are gradients of keeps them apart as little; the first one's stays.
// CHECK: opc.user_op "exp"{{.*}} role backward attributes {opc.gradient_of = "f"}
// CHECK-NOT: opc.user_op "exp"
func.func @gradients() {
  %x = opc.input "x" : tensor<2xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) role backward attributes {opc.gradient_of = "f"} : (tensor<2xf32>) -> tensor<2xf32> loc("a")
  %b = opc.user_op "exp"(x: %x) -> (y) role backward attributes {opc.gradient_of = "g"} : (tensor<2xf32>) -> tensor<2xf32> loc("b")
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// CHECK-LABEL: func.func @variables
// CHECK: opc.variable "w1"
// CHECK: opc.variable "w2"
func.func @variables() {
  %w1 = opc.variable "w1" : tensor<2xf32>
  %w2 = opc.variable "w2" : tensor<2xf32>
  %c = opc.user_op "broadcast_add"(x: %w1, y: %w2) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}
