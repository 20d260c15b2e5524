// A write to what is no variable.
// RUN: opc-opt %s --opc-infer-shapes --verify-diagnostics

func.func @no_variable() {
  // expected-note @+1 {{operand: ref}}
  %x = opc.input "x" : tensor<2xf32>
  // expected-note @+1 {{operand: value}}
  %y = opc.input "y" : tensor<2xf32>
  // expected-error @+2 {{OPC0208: assign: it writes its input ref, and x/out is no variable}}
  // expected-note @+1 {{help: give it the variable_conf op itself}}
  opc.user_op "assign"(ref: %x, value: %y) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
