// Convolutions that hand large images to each other are computed for one sample after the other; opc-opt writes texts in a pipeline alone.
// RUN: opc-opt %s --split-input-file --opc-pipeline="to=fuse" --mlir-print-debuginfo | FileCheck %s
// RUN: not opc-opt %s --opc-cut-batches 2>&1 | FileCheck %s --check-prefix=ALONE

// ALONE: OPC0416: op c: nobody writes its graph here

// CHECK-LABEL: func.func @network
// CHECK-DAG: %[[X:.*]] = opc.input "x"
// CHECK-DAG: %[[W:.*]] = opc.variable "w"
// CHECK-DAG: %[[V:.*]] = opc.variable "v"
// CHECK-NOT: fused_conv2d"(
// The one that other ops read, too, is a result.
// CHECK: %[[Y:.*]]:2 = opc.user_op "batch_parts"(in: %[[X]], in: %[[W]], in: %[[V]]) -> (out, out) {cut = 1 : i64, {{.*}}dim: 1 dim: 56 dim: 56 dim: 64{{.*}}fused_conv2d{{.*}}parts = 8 : i64
// CHECK: opc.output "y"(%[[Y]]#{{[01]}})
// CHECK: "reduce_max"(
// CHECK: opc.output "m"
func.func @network() {
  %x = opc.input "x" : tensor<8x56x56x64xf32> loc("x")
  %w = opc.variable "w" : tensor<64x64x1x1xf32> loc("w")
  %v = opc.variable "v" : tensor<64x64x1x1xf32> loc("v")
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x56x56x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x56x56x64xf32> loc("a")
  %b = opc.user_op "fused_conv2d"(in: %a, weight: %v, _add_to_output: %x) -> (out) {activation = "relu", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x56x56x64xf32>, tensor<64x64x1x1xf32>, tensor<8x56x56x64xf32>) -> tensor<8x56x56x64xf32> loc("b")
  %c = opc.user_op "fused_conv2d"(in: %b, weight: %v) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x56x56x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x56x56x64xf32> loc("c")
  opc.output "y"(%c) : tensor<8x56x56x64xf32> loc("y")
  %m = opc.user_op "reduce_max"(input_tensor: %b) -> (output_tensor) {axis = array<i32: 0, 1, 2, 3>, keepdims = false} : (tensor<8x56x56x64xf32>) -> tensor<f32> loc("m_op")
  opc.output "m"(%m) : tensor<f32> loc("m")
  return
}

// -----

// Small images stay in the cache as they are; so do those of a graph that trains, whose weights change.
// CHECK-LABEL: func.func @small
// CHECK-NOT: batch_parts
// CHECK: return
func.func @small() {
  %x = opc.input "x" : tensor<8x8x8x64xf32> loc("x")
  %w = opc.variable "w" : tensor<64x64x1x1xf32> loc("w")
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x8x8x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x8x8x64xf32> loc("a")
  %b = opc.user_op "fused_conv2d"(in: %a, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x8x8x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x8x8x64xf32> loc("b")
  opc.output "y"(%b) : tensor<8x8x8x64xf32> loc("y")
  return
}

// -----

// Products with weights, and reshapes whose attributes say the batch, or -1.
// CHECK-LABEL: func.func @products
// CHECK: opc.user_op "batch_parts"(in: %{{.*}}) -> (out) {cut = 1 : i64, {{.*}}dim: 4 dim: 128 dim: 4 dim: 128{{.*}}parts = 2 : i64
// CHECK-NOT: broadcast_matmul"(
// CHECK: opc.output "y"
func.func @products() {
  %x = opc.input "x" : tensor<8x128x512xf32> loc("x")
  %w = opc.variable "w" : tensor<512x512xf32> loc("w")
  %a = opc.user_op "broadcast_matmul"(a: %x, b: %w) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<8x128x512xf32>, tensor<512x512xf32>) -> tensor<8x128x512xf32> loc("a")
  %r = opc.user_op "reshape"(in: %a) -> (out) {shape = #opc.shape<[8, 128, 4, 128]>} : (tensor<8x128x512xf32>) -> tensor<8x128x4x128xf32> loc("r")
  %s = opc.user_op "silu"(in: %r) -> (out) : (tensor<8x128x4x128xf32>) -> tensor<8x128x4x128xf32> loc("s")
  %f = opc.user_op "reshape"(in: %s) -> (out) {shape = #opc.shape<[-1, 128, 512]>} : (tensor<8x128x4x128xf32>) -> tensor<8x128x512xf32> loc("f")
  %b = opc.user_op "broadcast_matmul"(a: %f, b: %w) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<8x128x512xf32>, tensor<512x512xf32>) -> tensor<8x128x512xf32> loc("b")
  %t = opc.user_op "silu"(in: %b) -> (out) : (tensor<8x128x512xf32>) -> tensor<8x128x512xf32> loc("t")
  %c = opc.user_op "broadcast_matmul"(a: %t, b: %w) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<8x128x512xf32>, tensor<512x512xf32>) -> tensor<8x128x512xf32> loc("c")
  opc.output "y"(%c) : tensor<8x128x512xf32> loc("y")
  return
}

// -----

// A product of a few rows is computed by another kernel than that of the whole batch.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: batch_parts
// CHECK: return
func.func @rows() {
  %x = opc.input "x" : tensor<64x16384xf32> loc("x")
  %w = opc.variable "w" : tensor<16384x128xf32> loc("w")
  %v = opc.variable "v" : tensor<128x16384xf32> loc("v")
  %a = opc.user_op "matmul"(a: %x, b: %w) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<64x16384xf32>, tensor<16384x128xf32>) -> tensor<64x128xf32> loc("a")
  %b = opc.user_op "matmul"(a: %a, b: %v) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<64x128xf32>, tensor<128x16384xf32>) -> tensor<64x16384xf32> loc("b")
  %s = opc.user_op "silu"(in: %b) -> (out) : (tensor<64x16384xf32>) -> tensor<64x16384xf32> loc("s")
  %c = opc.user_op "matmul"(a: %s, b: %w) -> (out) {transpose_a = false, transpose_b = false, alpha = 1.0 : f64} : (tensor<64x16384xf32>, tensor<16384x128xf32>) -> tensor<64x128xf32> loc("c")
  opc.output "y"(%c) : tensor<64x128xf32> loc("y")
  return
}
