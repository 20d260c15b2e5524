// Two writes of one variable in no order: there is none in which ops could be joined.
// RUN: opc-opt %s --opc-form-regions --verify-diagnostics
// RUN: opc-opt %s --opc-form-regions="gpu=true" --verify-diagnostics

func.func @two_writes() {
  // expected-note @+1 {{operand: ref: w/out  f32[2]  (variable)}}
  %w = opc.variable "w" : tensor<2xf32>
  %x = opc.input "x" : tensor<2xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  // expected-note @+1 {{operand: value}}
  %b = opc.user_op "exp"(x: %a) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %b) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  // expected-error @+2 {{both write variable 'w', and nothing says which goes first}}
  // expected-note @+1 {{help: order them: give op}}
  opc.user_op "assign"(ref: %w, value: %b) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
