// Order: the large branch is consumed before the next one is begun, which halves the peak.
// RUN: opc-opt %s --opc-schedule | FileCheck %s
// RUN: opc-opt %s --opc-schedule --opc-plan-memory | FileCheck %s --check-prefix=MEM

// CHECK: opc.input
// CHECK: "broadcast_mul"
// CHECK-NEXT: "reduce_sum"
// CHECK: "broadcast_sub"
// CHECK-NEXT: "reduce_sum"
// CHECK: opc.output

// Two buffers of 4 KiB never live at once beside each other: input 4096 + branch 4096 + two sums of 64.
// MEM: module attributes {opc.arena_bytes = 8320 : i64}
func.func @graph() {
  %x = opc.input "x" : tensor<1024xf32>
  %a = opc.user_op "broadcast_mul"(x: %x, y: %x) -> (z) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %b = opc.user_op "broadcast_sub"(x: %x, y: %x) -> (z) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %sa = opc.user_op "reduce_sum"(input_tensor: %a) -> (output_tensor) {axis = array<i32: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  %sb = opc.user_op "reduce_sum"(input_tensor: %b) -> (output_tensor) {axis = array<i32: 0>, keepdims = false} : (tensor<1024xf32>) -> tensor<f32>
  %s = opc.user_op "broadcast_add"(x: %sa, y: %sb) -> (z) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  opc.output "y"(%s) : tensor<f32>
  return
}
