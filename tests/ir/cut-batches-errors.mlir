// Texts are written in a pipeline alone; tests/cli/batch_parts.py has what is refused there.
// RUN: opc-opt %s --opc-cut-batches --split-input-file --verify-diagnostics

module {
func.func @graph() {
  %x = opc.input "x" : tensor<8x56x56x64xf32>
  %w = opc.variable "w" : tensor<64x64x1x1xf32>
  %a = opc.user_op "fused_conv2d"(in: %x, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x56x56x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x56x56x64xf32>
  // expected-note @+2 {{run the pass in a pipeline, or compile with --no-fuse}}
  // expected-error @+1 {{nobody writes its graph here}}
  %b = opc.user_op "fused_conv2d"(in: %a, weight: %w) -> (out) {activation = "", activation_max = 0.0 : f64, activation_min = 0.0 : f64, data_format = "channels_last", dilation_rate = array<i32>, filters = 0 : i32, groups = 1 : i32, kernel_size = array<i32>, padding_before = array<i32>, strides = array<i32>, epsilon = 0.0 : f32, weight_format = "channels_first"} : (tensor<8x56x56x64xf32>, tensor<64x64x1x1xf32>) -> tensor<8x56x56x64xf32>
  opc.output "y"(%b) : tensor<8x56x56x64xf32>
  return
}
}
