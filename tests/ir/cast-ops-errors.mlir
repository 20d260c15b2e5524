// Ops that write what they are given, and names that no op has.
// RUN: opc-opt %s --opc-cast-ops="op=assign=f16" --split-input-file --verify-diagnostics

// expected-note@unknown {{operand: value: h/y_0}}
func.func @graph() {
  // expected-note @+1 {{operand: ref: v/out}}
  %v = opc.variable "v" init <"constant_conf", {value = 1.0 : f32}> : tensor<4xf32>
  %h = opc.user_op "exp"(x: %v) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
  // expected-error @+2 {{OPC0208: assign: --cast-ops cannot give it another type: it writes its input v/out}}
  // expected-note @+1 {{help: cast ops that compute values, not those that update variables}}
  opc.user_op "assign"(ref: %v, value: %h) -> () : (tensor<4xf32>, tensor<4xf32>) -> ()
  opc.output "y"(%h) : tensor<4xf32>
  return
}

// -----

// expected-error @+2 {{OPC0005: --cast-ops: no op and no type of an op is called 'assign'}}
// expected-note @+1 {{help}}
module {
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("assigm")
  opc.output "y"(%h) : tensor<4xf32>
  return
}
}
