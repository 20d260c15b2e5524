// conv2d takes what follows it along, unless somebody else reads the result in between.
// RUN: opc-opt %s --opc-fuse-convolutions --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-fuse-convolutions='winograd=false' --split-input-file | FileCheck %s --check-prefix=DIRECT
// RUN: opc-opt %s --opc-fuse-convolutions='keep=*/z_0' --split-input-file | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: func.func @block
// The first convolution in order takes the sum and its relu, under the name of the relu; the other one is what is added.
// CHECK: %[[S:.*]] = opc.user_op "fused_conv2d"(in: %[[X:.*]], weight: %[[W:.*]], bias: %{{.*}}) -> (out) {activation = ""
// CHECK: "fused_conv2d"(in: %[[X]], weight: %[[W]], gamma: %{{.*}}, beta: %{{.*}}, moving_mean: %{{.*}}, moving_variance: %{{.*}}, _add_to_output: %[[S]]) -> (out) {activation = "relu"
// CHECK-SAME: epsilon = 9.99999974E-6 : f32
// CHECK-SAME: padding_before = array<i32: 1, 1>
// CHECK-NOT: "relu"(
// CHECK: opc.output
// What somebody looks at stays, and what makes it is joined up to there.
// KEPT-LABEL: func.func @block
// KEPT: %[[A:.*]] = opc.user_op "fused_conv2d"({{.*}}_add_to_output: {{.*}}activation = ""
// KEPT: "relu"(x: %[[A]])
func.func @block() {
  %x = opc.input "x" : tensor<1x4x5x5xf32>
  %w = opc.variable "w" : tensor<4x4x3x3xf32>
  %c = opc.variable "c" : tensor<4xf32>
  %s = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x5x5xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x5x5xf32>
  %n = opc.user_op "normalization"(x: %s, moving_mean: %c, moving_variance: %c, gamma: %c, beta: %c) -> (y) {axis = 1 : i32, epsilon = 1.0e-05 : f32, momentum = 0.9 : f32, training = false} : (tensor<1x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x5x5xf32>
  %k = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x5x5xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x5x5xf32>
  %b = opc.user_op "bias_add"(a: %k, b: %c) -> (out) {axis = 1 : i32} : (tensor<1x4x5x5xf32>, tensor<4xf32>) -> tensor<1x4x5x5xf32>
  %a = opc.user_op "broadcast_add"(x: %b, y: %n) -> (z) : (tensor<1x4x5x5xf32>, tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32>
  %r = opc.user_op "relu"(x: %a) -> (y) : (tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32>
  opc.output "y"(%r) : tensor<1x4x5x5xf32>
  return
}

// -----

// The normalization's input is an output of the graph: it stays.
// CHECK-LABEL: func.func @captured
// CHECK: %[[C:.*]] = opc.user_op "fused_conv2d"
// CHECK-SAME: activation = ""
// CHECK: %[[R:.*]] = opc.user_op "relu"(x: %[[C]])
// CHECK: opc.output "inner"(%[[C]])
func.func @captured() {
  %x = opc.input "x" : tensor<1x4x5x5xf32>
  %w = opc.variable "w" : tensor<4x4x1x1xf32>
  %s = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x5x5xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x5x5xf32>
  %r = opc.user_op "relu"(x: %s) -> (y) : (tensor<1x4x5x5xf32>) -> tensor<1x4x5x5xf32>
  opc.output "inner"(%s) : tensor<1x4x5x5xf32>
  opc.output "y"(%r) : tensor<1x4x5x5xf32>
  return
}

// -----

// Statistics of the batch, another axis, a sum that broadcasts, another element type: not taken.
// CHECK-LABEL: func.func @kept
// CHECK: "fused_conv2d"
// CHECK: "normalization"
// CHECK: "fused_conv2d"
// CHECK: "bias_add"
// CHECK: "fused_conv2d"
// CHECK: "broadcast_add"
// CHECK: "conv2d"
func.func @kept() {
  %x = opc.input "x" : tensor<1x4x4x4xf32>
  %w = opc.variable "w" : tensor<4x4x1x1xf32>
  %c = opc.variable "c" : tensor<4xf32>
  %s = opc.variable "s" : tensor<4x1x1xf32>
  %1 = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %n = opc.user_op "normalization"(x: %1, gamma: %c, beta: %c) -> (y) {axis = 1 : i32, epsilon = 1.0e-05 : f32, momentum = 0.9 : f32, training = true} : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %2 = opc.user_op "conv2d"(in: %n, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %b = opc.user_op "bias_add"(a: %2, b: %c) -> (out) {axis = 2 : i32} : (tensor<1x4x4x4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %3 = opc.user_op "conv2d"(in: %b, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %a = opc.user_op "broadcast_add"(x: %3, y: %s) -> (z) : (tensor<1x4x4x4xf32>, tensor<4x1x1xf32>) -> tensor<1x4x4x4xf32>
  opc.output "y"(%a) : tensor<1x4x4x4xf32>
  %d = opc.input "d" : tensor<1x4x4x4xf64>
  %v = opc.variable "v" : tensor<4x4x1x1xf64>
  %4 = opc.user_op "conv2d"(in: %d, weight: %v) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x4x4xf64>, tensor<4x4x1x1xf64>) -> tensor<1x4x4x4xf64>
  opc.output "z"(%4) : tensor<1x4x4x4xf64>
  return
}

// -----

// Images and weights in channels_last: so is what is made of them.
// CHECK-LABEL: func.func @last
// CHECK: "fused_conv2d"{{.*}}data_format = "channels_last"{{.*}}weight_format = "channels_last"
// CHECK-NOT: "bias_add"
func.func @last() {
  %x = opc.input "x" : tensor<1x4x4x3xf32>
  %w = opc.variable "w" : tensor<5x1x1x3xf32>
  %c = opc.variable "c" : tensor<5xf32>
  %1 = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, tuning_cache = ""} : (tensor<1x4x4x3xf32>, tensor<5x1x1x3xf32>) -> tensor<1x4x4x5xf32>
  %b = opc.user_op "bias_add"(a: %1, b: %c) -> (out) {axis = -1 : i32} : (tensor<1x4x4x5xf32>, tensor<5xf32>) -> tensor<1x4x4x5xf32>
  opc.output "y"(%b) : tensor<1x4x4x5xf32>
  return
}

// -----

// In a graph that trains all ops stay; 3x3 windows may be computed by minimal filtering, those with strides not.
// CHECK-LABEL: func.func @training
// CHECK: %[[C:.*]] = opc.user_op "conv2d"{{.*}}strides = array<i32>{{.*}}winograd = true
// CHECK: opc.user_op "conv2d"(in: %[[C]]{{.*}}strides = array<i32: 2, 2>, tuning_cache = ""}
// CHECK: opc.user_op "conv_data_grad"{{.*}}winograd = true
// CHECK: opc.user_op "conv2d"{{.*}}tuning_cache = ""} : (tensor<1x16x8x8xf64>
// CHECK-NOT: fused_conv2d
// DIRECT-LABEL: func.func @training
// DIRECT-NOT: winograd = true
func.func @training() {
  %x = opc.input "x" : tensor<1x16x8x8xf32>
  %w = opc.variable "w" : tensor<16x16x3x3xf32>
  %dy = opc.input "dy" : tensor<1x16x8x8xf32>
  %0 = opc.user_op "conv2d"(in: %x, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32>, tuning_cache = ""} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = opc.user_op "conv2d"(in: %0, weight: %w) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32: 2, 2>, tuning_cache = ""} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x4x4xf32>
  %2 = opc.user_op "conv_data_grad"(dy: %dy, filter: %w, x_like: %x) -> (dx) role backward {data_format = "channels_first", dilation_rate = array<i32>, groups = 1 : i32, kernel_size = array<i32: 3, 3>, num_spatial_dims = 2 : i32, padding_before = array<i32: 1, 1>, strides = array<i32>} : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>, tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %d = opc.input "d" : tensor<1x16x8x8xf64>
  %v = opc.variable "v" : tensor<16x16x3x3xf64>
  %3 = opc.user_op "conv2d"(in: %d, weight: %v) -> (out) {data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32: 1, 1>, strides = array<i32>, tuning_cache = ""} : (tensor<1x16x8x8xf64>, tensor<16x16x3x3xf64>) -> tensor<1x16x8x8xf64>
  opc.output "a"(%1) : tensor<1x16x4x4xf32>
  opc.output "b"(%2) : tensor<1x16x8x8xf32>
  opc.output "c"(%3) : tensor<1x16x8x8xf64>
  return
}
