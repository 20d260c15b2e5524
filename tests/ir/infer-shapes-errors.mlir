// All errors of the phase are reported; an op whose operand failed is not blamed.
// RUN: opc-opt %s --opc-infer-shapes --split-input-file --verify-diagnostics

func.func @graph() {
  // expected-note @+1 {{operand: a: x/out  f32[2,3]}}
  %x = opc.input "x" : tensor<2x3xf32>
  // expected-note @+1 {{operand: b: w/out  f32[5,4]}}
  %w = opc.variable "w" : tensor<5x4xf32>
  // expected-error @+1 {{OPC0203: matmul: inner dimensions differ (3 vs 5)}}
  %m = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<2x3xf32>, tensor<5x4xf32>) -> !opc.unresolved
  %r = opc.user_op "relu"(x: %m) -> (y) : (!opc.unresolved) -> !opc.unresolved
  return
}

// -----

func.func @no_shape() {
  // expected-error @+2 {{OPC0207: input 'x': it has no shape}}
  // expected-note @+1 {{help: give one: --shape x=2,3}}
  %x = opc.input "x" : !opc.unresolved
  return
}
