// Images stay in channels_last between convolutions; transposes stand where something else reads them.
// RUN: opc-opt %s --opc-channels-last | FileCheck %s

// CHECK-LABEL: func.func @network
// CHECK: %[[X:.*]] = opc.input "x"
// CHECK: %[[T:.*]] = opc.user_op "transpose"(input: %[[X]]) -> (output) {{.*}}perm = array<i32: 0, 2, 3, 1>{{.*}} : (tensor<1x3x8x8xf32>) -> tensor<1x8x8x3xf32>
// CHECK: %[[A:.*]] = opc.user_op "fused_conv2d"(in: %[[T]], {{.*}}data_format = "channels_last"{{.*}} -> tensor<1x8x8x4xf32>
// CHECK-NOT: transpose
// CHECK: %[[P:.*]] = opc.user_op "max_pool_2d"(x: %[[A]]) {{.*}}data_format = "channels_last"{{.*}} -> tensor<1x4x4x4xf32>
// CHECK-NOT: transpose
// CHECK: %[[S:.*]] = opc.user_op "silu"(in: %[[P]])
// CHECK: %[[B:.*]] = opc.user_op "fused_conv2d"(in: %[[S]], {{.*}}_add_to_output: %[[P]]
// The softmax is over the last axis: it needs the image as it was.
// CHECK: %[[Y:.*]] = opc.user_op "transpose"(input: %[[B]]) -> (output) {{.*}}perm = array<i32: 0, 3, 1, 2>
// CHECK: "softmax"(in: %[[Y]])
// One pixel: nothing moves.
// CHECK: %[[M:.*]] = opc.user_op "adaptive_avg_pool2d"(x: %[[B]]) {{.*}} -> tensor<1x1x1x4xf32>
// CHECK: %[[R:.*]] = opc.user_op "reshape"(in: %[[M]]) {{.*}} -> tensor<1x4x1x1xf32>
// CHECK: opc.output "mean"(%[[R]])
func.func @network() {
  %x = opc.input "x" : tensor<1x3x8x8xf32>
  %w = opc.variable "w" : tensor<4x3x1x1xf32>
  %v = opc.variable "v" : tensor<4x4x1x1xf32>
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %p = opc.user_op "max_pool_2d"(x: %a) -> (y) {ceil_mode = false, data_format = "channels_first", dilation = array<i32>, kernel_size = array<i32: 2, 2>, padding = array<i32>, padding_after = array<i32>, return_indices = false, stride = array<i32>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %s = opc.user_op "silu"(in: %p) -> (out) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %b = opc.user_op "fused_conv2d"(in: %s, weight: %v, _add_to_output: %p) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %m = opc.user_op "softmax"(in: %b) -> (out) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  opc.output "y"(%m) : tensor<1x4x4x4xf32>
  %g = opc.user_op "adaptive_avg_pool2d"(x: %b) -> (y) {data_format = "channels_first", output_size = array<i64: 1, 1>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x1x1xf32>
  opc.output "mean"(%g) : tensor<1x4x1x1xf32>
  return
}

// A tensor that is no image of a convolution stays as it is; so does one that meets another layout.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: transpose
// CHECK: "max_pool_2d"(x: %{{.*}}) -> (y) {{.*}}data_format = "channels_first"
func.func @alone() {
  %x = opc.input "x" : tensor<1x3x8x8xf32>
  %p = opc.user_op "max_pool_2d"(x: %x) -> (y) {ceil_mode = false, data_format = "channels_first", dilation = array<i32>, kernel_size = array<i32: 2, 2>, padding = array<i32>, padding_after = array<i32>, return_indices = false, stride = array<i32>} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  opc.output "y"(%p) : tensor<1x3x4x4xf32>
  return
}

// A factor for each channel, from the mean of its pixels: nothing is moved but the image that goes out.
// CHECK-LABEL: func.func @squeeze
// CHECK: %[[A:.*]] = opc.user_op "fused_conv2d"
// CHECK-NOT: "transpose"
// CHECK: %[[M:.*]] = opc.user_op "reduce_mean"(input_tensor: %[[A]]) {{.*}}axis = array<i32: 1, 2>{{.*}} -> tensor<2x1x1x4xf32>
// CHECK: %[[B:.*]] = opc.user_op "fused_conv2d"(in: %[[M]], {{.*}} -> tensor<2x1x1x4xf32>
// CHECK: %[[S:.*]] = opc.user_op "sigmoid"({{.*}}: %[[B]])
// CHECK: %[[P:.*]] = opc.user_op "broadcast_mul"(x: %[[A]], y: %[[S]]) {{.*}} -> tensor<2x8x8x4xf32>
// CHECK: %[[Y:.*]] = opc.user_op "transpose"(input: %[[P]])
// CHECK: opc.output "y"(%[[Y]])
// CHECK: "reduce_max"(input_tensor: %[[P]]) {{.*}}axis = array<i32: 1, 2>{{.*}} -> tensor<2x4xf32>
// Rows of an image are no pixels of a channel: they need the image as it was.
// CHECK: "reduce_sum"(input_tensor: %[[Y]]) {{.*}}axis = array<i32: 3>
func.func @squeeze() {
  %x = opc.input "x" : tensor<2x3x8x8xf32>
  %w = opc.variable "w" : tensor<4x3x1x1xf32>
  %v = opc.variable "v" : tensor<4x4x1x1xf32>
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<2x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x8x8xf32>
  %m = opc.user_op "reduce_mean"(input_tensor: %a) -> (output_tensor) {axis = array<i32: 2, -1>, keepdims = true} : (tensor<2x4x8x8xf32>) -> tensor<2x4x1x1xf32>
  %b = opc.user_op "fused_conv2d"(in: %m, weight: %v) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<2x4x1x1xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x1x1xf32>
  %s = opc.user_op "sigmoid"(x: %b) -> (y) : (tensor<2x4x1x1xf32>) -> tensor<2x4x1x1xf32>
  %p = opc.user_op "broadcast_mul"(x: %a, y: %s) -> (z) : (tensor<2x4x8x8xf32>, tensor<2x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  opc.output "y"(%p) : tensor<2x4x8x8xf32>
  %l = opc.user_op "reduce_max"(input_tensor: %p) -> (output_tensor) {axis = array<i32: 2, 3>, keepdims = false} : (tensor<2x4x8x8xf32>) -> tensor<2x4xf32>
  opc.output "largest"(%l) : tensor<2x4xf32>
  %r = opc.user_op "reduce_sum"(input_tensor: %p) -> (output_tensor) {axis = array<i32: 3>, keepdims = false} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8xf32>
  opc.output "rows"(%r) : tensor<2x4x8xf32>
  return
}

// Images that are joined along the channels, and a normalization that no convolution has taken.
// CHECK-LABEL: func.func @dense
// CHECK: %[[A:.*]] = opc.user_op "fused_conv2d"
// CHECK: %[[C:.*]] = opc.user_op "cat"(in: %[[A]], in: %[[A]]) {{.*}}axis = 3 : i64{{.*}} -> tensor<1x8x8x8xf32>
// CHECK: %[[V:.*]] = opc.user_op "scalar_add"({{.*}}float_operand = 0.0099999997764825821 : f64
// CHECK: %[[D:.*]] = opc.user_op "sqrt"(x: %[[V]])
// CHECK: %[[I:.*]] = opc.user_op "reciprocal"(x: %[[D]])
// CHECK: %[[S:.*]] = opc.user_op "broadcast_mul"(x: %[[I]], y: %{{.*}}) {{.*}} -> tensor<8xf32>
// CHECK: %[[X:.*]] = opc.user_op "broadcast_sub"(x: %[[C]], {{.*}} -> tensor<1x8x8x8xf32>
// CHECK: %[[P:.*]] = opc.user_op "broadcast_mul"(x: %[[X]], y: %[[S]])
// CHECK: %[[N:.*]] = opc.user_op "broadcast_add"(x: %[[P]], y: %{{.*}}) {{.*}} -> tensor<1x8x8x8xf32>
// CHECK: opc.user_op "relu"({{.*}}: %[[N]])
// CHECK: opc.user_op "fused_conv2d"
// Along the pixels, or with the statistics of the batch, they stay.
// CHECK: "cat"({{.*}}axis = 2 : i64
// CHECK: "normalization"({{.*}}axis = 1 : i32{{.*}}training = true
func.func @dense() {
  %x = opc.input "x" : tensor<1x3x8x8xf32>
  %w = opc.variable "w" : tensor<4x3x1x1xf32>
  %v = opc.variable "v" : tensor<4x8x1x1xf32>
  %g = opc.variable "g" : tensor<8xf32>
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %c = opc.user_op "cat"(in: %a, in: %a) -> (out) {axis = 1 : i64, max_dim_size = 0 : i64} : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x8x8x8xf32>
  %n = opc.user_op "normalization"(x: %c, moving_mean: %g, moving_variance: %g, gamma: %g, beta: %g) -> (y) {axis = 1 : i32, epsilon = 0.01 : f32, momentum = 0.0 : f32, training = false} : (tensor<1x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  %r = opc.user_op "relu"(x: %n) -> (y) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %b = opc.user_op "fused_conv2d"(in: %r, weight: %v) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x8x8x8xf32>, tensor<4x8x1x1xf32>) -> tensor<1x4x8x8xf32>
  opc.output "y"(%b) : tensor<1x4x8x8xf32>
  %d = opc.user_op "cat"(in: %a, in: %a) -> (out) {axis = 2 : i64, max_dim_size = 0 : i64} : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x16x8xf32>
  opc.output "taller"(%d) : tensor<1x4x16x8xf32>
  %t = opc.user_op "normalization"(x: %c, gamma: %g, beta: %g) -> (y) {axis = 1 : i32, epsilon = 0.01 : f32, momentum = 0.0 : f32, training = true} : (tensor<1x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x8x8xf32>
  opc.output "trained"(%t) : tensor<1x8x8x8xf32>
  return
}

// Half precision between two convolutions in f32: casts and what stands between them go on in channels_last.
// CHECK-LABEL: func.func @halved
// CHECK: %[[A:.*]] = opc.user_op "fused_conv2d"({{.*}} -> tensor<1x8x8x4xf32>
// CHECK-NOT: transpose
// CHECK: %[[H:.*]] = opc.user_op "cast"(in: %[[A]]) {{.*}} -> tensor<1x8x8x4xf16>
// CHECK: %[[R:.*]] = opc.user_op "relu"(x: %[[H]]) {{.*}} -> tensor<1x8x8x4xf16>
// CHECK: %[[F:.*]] = opc.user_op "cast"(in: %[[R]]) {{.*}} -> tensor<1x8x8x4xf32>
// CHECK-NOT: transpose
// CHECK: opc.user_op "fused_conv2d"(in: %[[F]]
func.func @halved() {
  %x = opc.input "x" : tensor<1x3x8x8xf32>
  %w = opc.variable "w" : tensor<4x3x1x1xf32>
  %v = opc.variable "v" : tensor<4x4x1x1xf32>
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %h = opc.user_op "cast"(in: %a) -> (out) {dtype = #opc.dtype<9>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf16>
  %r = opc.user_op "relu"(x: %h) -> (y) : (tensor<1x4x8x8xf16>) -> tensor<1x4x8x8xf16>
  %f = opc.user_op "cast"(in: %r) -> (out) {dtype = #opc.dtype<2>} : (tensor<1x4x8x8xf16>) -> tensor<1x4x8x8xf32>
  %b = opc.user_op "fused_conv2d"(in: %f, weight: %v) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_first", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  opc.output "y"(%b) : tensor<1x4x8x8xf32>
  return
}
