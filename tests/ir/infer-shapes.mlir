// Shape and dtype inference: reshape with -1, broadcasting, rank 0, zero sizes.
// RUN: opc-opt %s --opc-infer-shapes | FileCheck %s

// CHECK-LABEL: func.func @graph
func.func @graph() {
  %x = opc.input "x" : tensor<6x4xf32>
  %row = opc.input "row" : tensor<4xf32>
  %empty = opc.input "empty" : tensor<0x4xf32>
  %scalar = opc.input "scalar" : tensor<f32>
  // CHECK: "reshape"{{.*}} -> tensor<2x12xf32>
  %0 = opc.user_op "reshape"(in: %x) -> (out) {shape = #opc.shape<[2, -1]>} : (tensor<6x4xf32>) -> !opc.unresolved
  // CHECK: "broadcast_add"{{.*}} -> tensor<6x4xf32>
  %1 = opc.user_op "broadcast_add"(x: %x, y: %row) -> (z) : (tensor<6x4xf32>, tensor<4xf32>) -> !opc.unresolved
  // CHECK: "broadcast_mul"{{.*}} -> tensor<0x4xf32>
  %2 = opc.user_op "broadcast_mul"(x: %empty, y: %row) -> (z) : (tensor<0x4xf32>, tensor<4xf32>) -> !opc.unresolved
  // CHECK: "broadcast_less"{{.*}} -> tensor<6x4xi1>
  %3 = opc.user_op "broadcast_less"(x: %x, y: %scalar) -> (z) : (tensor<6x4xf32>, tensor<f32>) -> !opc.unresolved
  // CHECK: "reduce_sum"{{.*}} -> tensor<f32>
  %4 = opc.user_op "reduce_sum"(input_tensor: %x) -> (output_tensor) {axis = array<i32: 0, 1>, keepdims = false} : (tensor<6x4xf32>) -> !opc.unresolved
  // CHECK: "cast"{{.*}} -> tensor<2x12xi64>
  %5 = opc.user_op "cast"(in: %0) -> (out) {dtype = #opc.dtype<6>, pin_memory = false} : (!opc.unresolved) -> !opc.unresolved
  opc.output "y"(%5) : !opc.unresolved
  return
}
