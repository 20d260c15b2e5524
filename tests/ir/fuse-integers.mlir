// Sums of 8-bit integers are finished where they are made, unless somebody else reads them.
// RUN: opc-opt %s --opc-fuse-convolutions --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-fuse-convolutions --opc-channels-last --split-input-file | FileCheck %s --check-prefix=LAST

// CHECK-LABEL: func.func @bytes
// CHECK: "fused_integer_conv2d"(in: %{{.*}}, weight: %{{.*}}, in_zero_point: %[[Z:.*]], bias: %{{.*}}, scale: %{{.*}}, zero_point: %{{.*}}) -> (out)
// CHECK-SAME: dtype = #opc.dtype<7>
// CHECK-SAME: relu = true
// CHECK-NOT: "requantize"(
// The second one has no zero points, and its numbers are real.
// CHECK: "fused_integer_conv2d"(in: %{{.*}}, weight: %{{.*}}, scale: %{{.*}}) -> (out)
// CHECK-SAME: dtype = #opc.dtype<2>
// CHECK-SAME: relu = false
// CHECK: opc.output
// The images between stay in channels_last.
// LAST-LABEL: func.func @bytes
// LAST: "transpose"(input: %{{.*}}) {{.*}} -> tensor<1x5x5x4xui8>
// LAST: "fused_integer_conv2d"{{.*}} -> tensor<1x5x5x6xui8>
// LAST-NEXT: "fused_integer_conv2d"{{.*}} -> tensor<1x5x5x4xf32>
// LAST-NEXT: "transpose"
func.func @bytes() {
  %x = opc.input "x" : tensor<1x4x5x5xui8>
  %w = opc.variable "w" : tensor<6x4x3x3xi8>
  %v = opc.variable "v" : tensor<4x6x1x1xi8>
  %b = opc.variable "b" : tensor<6xi32>
  %z = opc.variable "z" : tensor<ui8>
  %s = opc.variable "s" : tensor<6xf32>
  %p = opc.variable "p" : tensor<6xui8>
  %one = opc.variable "one" : tensor<f32>
  %zero = opc.constant dense<0> : tensor<i32> : tensor<i32>
  %c = opc.user_op "integer_conv2d"(in: %x, weight: %w, in_zero_point: %z, bias: %b) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32>} : (tensor<1x4x5x5xui8>, tensor<6x4x3x3xi8>, tensor<ui8>, tensor<6xi32>) -> tensor<1x6x5x5xi32>
  %m = opc.user_op "broadcast_maximum"(x: %c, y: %zero) -> (z) : (tensor<1x6x5x5xi32>, tensor<i32>) -> tensor<1x6x5x5xi32>
  %q = opc.user_op "requantize"(in: %m, scale: %s, zero_point: %p) -> (out) {axis = 1 : i32, dtype = #opc.dtype<7>} : (tensor<1x6x5x5xi32>, tensor<6xf32>, tensor<6xui8>) -> tensor<1x6x5x5xui8>
  %d = opc.user_op "integer_conv2d"(in: %q, weight: %v) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>} : (tensor<1x6x5x5xui8>, tensor<4x6x1x1xi8>) -> tensor<1x4x5x5xi32>
  %r = opc.user_op "dequantize_linear"(in: %d, scale: %one) -> (out) {axis = 1 : i32} : (tensor<1x4x5x5xi32>, tensor<f32>) -> tensor<1x4x5x5xf32>
  opc.output "y"(%r) : tensor<1x4x5x5xf32>
  return
}

// -----

// Scales of the rows are not those of the columns.
// CHECK-LABEL: func.func @rows
// CHECK: "integer_matmul"
// CHECK: "requantize"
// CHECK: "fused_integer_matmul"(a: %{{.*}}, b: %{{.*}}, scale: %{{.*}}) -> (out)
// CHECK-SAME: transpose_b = true
// CHECK: opc.output
func.func @rows() {
  %a = opc.input "a" : tensor<5x4xui8>
  %b = opc.variable "b" : tensor<5x4xi8>
  %s = opc.variable "s" : tensor<5xf32>
  %c = opc.user_op "integer_matmul"(a: %a, b: %b) -> (out) {transpose_b = true} : (tensor<5x4xui8>, tensor<5x4xi8>) -> tensor<5x5xi32>
  %q = opc.user_op "requantize"(in: %c, scale: %s) -> (out) {axis = 0 : i32, dtype = #opc.dtype<7>} : (tensor<5x5xi32>, tensor<5xf32>) -> tensor<5x5xui8>
  %d = opc.user_op "integer_matmul"(a: %a, b: %b) -> (out) {transpose_b = true} : (tensor<5x4xui8>, tensor<5x4xi8>) -> tensor<5x5xi32>
  %r = opc.user_op "requantize"(in: %d, scale: %s) -> (out) {axis = -1 : i32, dtype = #opc.dtype<7>} : (tensor<5x5xi32>, tensor<5xf32>) -> tensor<5x5xui8>
  opc.output "y"(%q) : tensor<5x5xui8>
  opc.output "z"(%r) : tensor<5x5xui8>
  return
}

// -----

// Sums that are an output are read twice.
// CHECK-LABEL: func.func @read
// CHECK: "integer_matmul"
// CHECK: "requantize"
func.func @read() {
  %a = opc.input "a" : tensor<5x4xui8>
  %b = opc.variable "b" : tensor<5x4xi8>
  %s = opc.variable "s" : tensor<f32>
  %c = opc.user_op "integer_matmul"(a: %a, b: %b) -> (out) {transpose_b = true} : (tensor<5x4xui8>, tensor<5x4xi8>) -> tensor<5x5xi32>
  %q = opc.user_op "requantize"(in: %c, scale: %s) -> (out) {axis = 0 : i32, dtype = #opc.dtype<7>} : (tensor<5x5xi32>, tensor<f32>) -> tensor<5x5xui8>
  opc.output "y"(%q) : tensor<5x5xui8>
  opc.output "z"(%c) : tensor<5x5xi32>
  return
}
