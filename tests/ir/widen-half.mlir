// Ops whose kernels compute half precision in f32 get casts around them; the others, and those of f32, stay.
// RUN: opc-opt %s --opc-widen-half --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @products
// What two of them read is cast once; between them is what the graph says.
// CHECK: %[[X:.*]] = opc.input "x"
// CHECK: %[[F:.*]] = opc.user_op "cast"(in: %[[X]]) -> (out) {dtype = #opc.dtype<2>} : (tensor<4x4xf16>) -> tensor<4x4xf32>
// CHECK: %[[A:.*]] = opc.user_op "matmul"(a: %[[F]], b: %[[F]]){{.*}} -> tensor<4x4xf32>
// CHECK: %[[R:.*]] = opc.user_op "cast"(in: %[[A]]) -> (out) {dtype = #opc.dtype<9>} : (tensor<4x4xf32>) -> tensor<4x4xf16>
// CHECK: %[[E:.*]] = opc.user_op "exp"(x: %[[R]]){{.*}} -> tensor<4x4xf16>
// CHECK: %[[G:.*]] = opc.user_op "cast"(in: %[[E]])
// CHECK: opc.user_op "matmul"(a: %[[F]], b: %[[G]])
// CHECK: opc.output "e"(%[[E]]) : tensor<4x4xf16>
func.func @products() {
  %x = opc.input "x" : tensor<4x4xf16>
  %0 = opc.user_op "matmul"(a: %x, b: %x) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  %1 = opc.user_op "exp"(x: %0) -> (y) : (tensor<4x4xf16>) -> tensor<4x4xf16>
  %2 = opc.user_op "matmul"(a: %x, b: %1) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  opc.output "e"(%1) : tensor<4x4xf16>
  opc.output "y"(%2) : tensor<4x4xf16>
  return
}

// -----
// CHECK-LABEL: func.func @others
// CHECK-NOT: "cast"
// CHECK: return
func.func @others() {
  %x = opc.input "x" : tensor<4x4xf32>
  %h = opc.input "h" : tensor<4x4xbf16>
  %0 = opc.user_op "matmul"(a: %x, b: %x) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = opc.user_op "broadcast_add"(x: %h, y: %h) -> (z) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = opc.user_op "reshape"(in: %1) -> (out) {shape = #opc.shape<[16]>} : (tensor<4x4xbf16>) -> tensor<16xbf16>
  opc.output "y"(%0) : tensor<4x4xf32>
  opc.output "z"(%2) : tensor<16xbf16>
  return
}

// -----
// CHECK-LABEL: func.func @trains
// CHECK-NOT: "cast"
// CHECK: return
func.func @trains() {
  %x = opc.input "x" : tensor<4x4xf16>
  %w = opc.variable "w" : tensor<4x4xf16>
  %0 = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  opc.user_op "sgd_update"(model: %w, model_diff: %0) -> () : (tensor<4x4xf16>, tensor<4x4xf16>) -> ()
  opc.output "y"(%0) : tensor<4x4xf16>
  return
}
