// Two products and the softmax between them are one op, where it is faster and nobody else reads what lies between.
// RUN: opc-opt %s --opc-fuse-attention --split-input-file | FileCheck %s

// A factor and an added mask; the keys were transposed for the product.
// CHECK-LABEL: func.func @added
// CHECK: %[[K:.*]] = opc.user_op "transpose"(input: %{{.*}}) {{.*}}perm = array<i32: 0, 2, 1, 3>{{.*}} -> tensor<1x2x256x8xf32>
// CHECK: "scaled_dot_product_attention"(query: %{{.*}}, key: %[[K]], value: %{{.*}}, mask: %{{.*}}) -> (out, log_sum)
// CHECK-SAME: causal = false
// CHECK-SAME: scale = 2.500000e-01
// CHECK-NOT: "softmax"
// CHECK: opc.output
func.func @added() {
  %q = opc.input "q" : tensor<1x2x256x8xf32>
  %k = opc.input "k" : tensor<1x256x2x8xf32>
  %v = opc.input "v" : tensor<1x2x256x4xf32>
  %m = opc.input "m" : tensor<1x1x1x256xf32>
  %c = opc.constant dense<4.0> : tensor<f32> : tensor<f32>
  %t = opc.user_op "transpose"(input: %k) -> (output) {batch_axis_non_change = false, perm = array<i32: 0, 2, 3, 1>} : (tensor<1x256x2x8xf32>) -> tensor<1x2x8x256xf32>
  %s = opc.user_op "batch_matmul"(a: %q, b: %t) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<1x2x256x8xf32>, tensor<1x2x8x256xf32>) -> tensor<1x2x256x256xf32>
  %d = opc.user_op "broadcast_div"(x: %s, y: %c) -> (z) : (tensor<1x2x256x256xf32>, tensor<f32>) -> tensor<1x2x256x256xf32>
  %a = opc.user_op "broadcast_add"(x: %d, y: %m) -> (z) : (tensor<1x2x256x256xf32>, tensor<1x1x1x256xf32>) -> tensor<1x2x256x256xf32>
  %p = opc.user_op "softmax"(in: %a) -> (out) : (tensor<1x2x256x256xf32>) -> tensor<1x2x256x256xf32>
  %o = opc.user_op "batch_matmul"(a: %p, b: %v) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<1x2x256x256xf32>, tensor<1x2x256x4xf32>) -> tensor<1x2x256x4xf32>
  opc.output "y"(%o) : tensor<1x2x256x4xf32>
  return
}

// -----

// A choice becomes what is added: 0 or the number.
// CHECK-LABEL: func.func @chosen
// CHECK: %[[M:.*]] = opc.user_op "where"(condition: %{{.*}}, x: %{{.*}}, y: %{{.*}}) -> (out) : (tensor<256x256xi1>, tensor<f32>, tensor<f32>) -> tensor<256x256xf32>
// CHECK: "scaled_dot_product_attention"(query: %{{.*}}, key: %{{.*}}, value: %{{.*}}, mask: %[[M]])
// CHECK-SAME: scale = 5.000000e-01
func.func @chosen() {
  %q = opc.input "q" : tensor<3x256x8xf32>
  %k = opc.input "k" : tensor<3x256x8xf32>
  %v = opc.input "v" : tensor<3x256x4xf32>
  %m = opc.input "m" : tensor<256x256xi1>
  %c = opc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %s = opc.user_op "batch_matmul"(a: %q, b: %k) -> (out) {alpha = 5.000000e-01 : f64, transpose_a = false, transpose_b = true} : (tensor<3x256x8xf32>, tensor<3x256x8xf32>) -> tensor<3x256x256xf32>
  %a = opc.user_op "where"(condition: %m, x: %s, y: %c) -> (out) : (tensor<256x256xi1>, tensor<3x256x256xf32>, tensor<f32>) -> tensor<3x256x256xf32>
  %p = opc.user_op "softmax"(in: %a) -> (out) : (tensor<3x256x256xf32>) -> tensor<3x256x256xf32>
  %o = opc.user_op "batch_matmul"(a: %p, b: %v) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<3x256x256xf32>, tensor<3x256x4xf32>) -> tensor<3x256x4xf32>
  opc.output "y"(%o) : tensor<3x256x4xf32>
  return
}

// -----

// A query whose keys were transposed for it alone. Too few scores stay, and so do those that are an output.
// CHECK-LABEL: func.func @few
// CHECK: %[[Q:.*]] = opc.input "q"
// CHECK: %[[K:.*]] = opc.input "k"
// CHECK: "scaled_dot_product_attention"(query: %[[Q]], key: %[[K]], value: %{{.*}})
// CHECK-NOT: "transpose"
// CHECK: "batch_matmul"
// CHECK: "softmax"
// CHECK: "batch_matmul"
// CHECK: opc.output "z"
func.func @few() {
  %q = opc.input "q" : tensor<3x1x8xf32>
  %k = opc.input "k" : tensor<3x200x8xf32>
  %v = opc.input "v" : tensor<3x200x4xf32>
  %t = opc.user_op "transpose"(input: %k) -> (output) {batch_axis_non_change = false, perm = array<i32: 0, 2, 1>} : (tensor<3x200x8xf32>) -> tensor<3x8x200xf32>
  %s = opc.user_op "batch_matmul"(a: %q, b: %t) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<3x1x8xf32>, tensor<3x8x200xf32>) -> tensor<3x1x200xf32>
  %p = opc.user_op "softmax"(in: %s) -> (out) : (tensor<3x1x200xf32>) -> tensor<3x1x200xf32>
  %o = opc.user_op "batch_matmul"(a: %p, b: %v) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<3x1x200xf32>, tensor<3x200x4xf32>) -> tensor<3x1x4xf32>
  opc.output "y"(%o) : tensor<3x1x4xf32>
  %x = opc.input "x" : tensor<3x200x8xf32>
  %s2 = opc.user_op "batch_matmul"(a: %x, b: %k) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = true} : (tensor<3x200x8xf32>, tensor<3x200x8xf32>) -> tensor<3x200x200xf32>
  %p2 = opc.user_op "softmax"(in: %s2) -> (out) : (tensor<3x200x200xf32>) -> tensor<3x200x200xf32>
  %o2 = opc.user_op "batch_matmul"(a: %p2, b: %v) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<3x200x200xf32>, tensor<3x200x4xf32>) -> tensor<3x200x4xf32>
  opc.output "z"(%o2) : tensor<3x200x4xf32>
  return
}

// -----

// CHECK-LABEL: func.func @looked_at
// CHECK-NOT: "scaled_dot_product_attention"
// CHECK: return
func.func @looked_at() {
  %q = opc.input "q" : tensor<3x300x8xf32>
  %k = opc.input "k" : tensor<3x300x8xf32>
  %s = opc.user_op "batch_matmul"(a: %q, b: %k) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = true} : (tensor<3x300x8xf32>, tensor<3x300x8xf32>) -> tensor<3x300x300xf32>
  %p = opc.user_op "softmax"(in: %s) -> (out) : (tensor<3x300x300xf32>) -> tensor<3x300x300xf32>
  %o = opc.user_op "batch_matmul"(a: %p, b: %k) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = false} : (tensor<3x300x300xf32>, tensor<3x300x8xf32>) -> tensor<3x300x8xf32>
  opc.output "y"(%o) : tensor<3x300x8xf32>
  opc.output "shares"(%p) : tensor<3x300x300xf32>
  return
}
