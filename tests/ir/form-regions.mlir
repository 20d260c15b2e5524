// Elementwise ops join the elementwise ops that read them, and what keeps them apart.
// RUN: opc-opt %s --opc-form-regions --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @chain
// A broadcast operand, a comparison, a selection and a cast: one loop, with two results.
// CHECK: %[[R:.*]]:2 = opc.fused "elementwise"(%[[X:.*]], %[[B:.*]]) : (tensor<3x4xf32>, tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf64>) {
// CHECK: opc.user_op "broadcast_mul"
// CHECK: opc.user_op "cast"
// CHECK: opc.yield
// CHECK-NOT: opc.user_op
// CHECK: opc.output "kept"(%[[R]]#0)
// CHECK: opc.output "y"(%[[R]]#1)
func.func @chain() {
  %x = opc.input "x" : tensor<3x4xf32>
  %b = opc.input "b" : tensor<4xf32>
  %0 = opc.user_op "broadcast_mul"(x: %x, y: %b) -> (z) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1 = opc.user_op "relu"(x: %0) -> (y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = opc.user_op "broadcast_greater"(x: %0, y: %b) -> (z) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xi1>
  %3 = opc.user_op "where"(condition: %2, x: %1, y: %x) -> (out) : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = opc.user_op "cast"(in: %3) -> (out) {dtype = #opc.dtype<3>, pin_memory = false, saturate = true} : (tensor<3x4xf32>) -> tensor<3x4xf64>
  opc.output "kept"(%1) : tensor<3x4xf32>
  opc.output "y"(%4) : tensor<3x4xf64>
  return
}

// -----
// CHECK-LABEL: func.func @cycle
// The product between them reads one and is read by the other.
// CHECK-NOT: opc.fused
func.func @cycle() {
  %x = opc.input "x" : tensor<4x4xf32>
  %0 = opc.user_op "exp"(x: %x) -> (y) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = opc.user_op "matmul"(a: %0, b: %x) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = opc.user_op "broadcast_add"(x: %0, y: %1) -> (z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  opc.output "y"(%2) : tensor<4x4xf32>
  return
}

// -----
// CHECK-LABEL: func.func @shapes
// An op on the small tensor would be computed once for each row.
// CHECK: opc.user_op "exp"
// CHECK: opc.user_op "broadcast_add"
// CHECK-NOT: opc.fused
func.func @shapes() {
  %x = opc.input "x" : tensor<3x4xf32>
  %b = opc.input "b" : tensor<4xf32>
  %0 = opc.user_op "exp"(x: %b) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = opc.user_op "broadcast_add"(x: %x, y: %0) -> (z) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  opc.output "y"(%1) : tensor<3x4xf32>
  return
}

// -----
// CHECK-LABEL: func.func @memory
// The sum of two activations would wait for the product, and two tensors live instead of one.
// CHECK-NOT: opc.fused
func.func @memory() {
  %x = opc.input "x" : tensor<4x4xf32>
  %a = opc.user_op "matmul"(a: %x, b: %x) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = opc.user_op "matmul"(a: %x, b: %a) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = opc.user_op "matmul"(a: %x, b: %x) -> (out) {alpha = 2.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = opc.user_op "broadcast_add"(x: %s, y: %c) -> (z) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  opc.output "y"(%y) : tensor<4x4xf32>
  return
}

// -----
// CHECK-LABEL: func.func @backward
// Of what stands at ops, whose gradient they are part of is left to them.
// CHECK: opc.fused "elementwise"
// CHECK: opc.user_op "exp"{{.*}} role backward attributes {opc.gradient_of = "f"}
// CHECK: opc.user_op "relu"{{.*}} role backward :
func.func @backward() {
  %x = opc.input "x" : tensor<3x4xf32>
  %0 = opc.user_op "exp"(x: %x) -> (y) role backward attributes {opc.gradient_of = "f"} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = opc.user_op "relu"(x: %0) -> (y) role backward : (tensor<3x4xf32>) -> tensor<3x4xf32>
  opc.output "y"(%1) : tensor<3x4xf32>
  return
}
