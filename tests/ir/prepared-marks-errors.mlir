// A mark of a text that says what is not so.
// RUN: opc-opt %s --opc-plan-memory --split-input-file --verify-diagnostics

func.func @input() {
  %x = opc.input "x" : tensor<4xf32>
  // expected-error @+1 {{opc.prepared stands at an op that reads x/out, another one in each run}}
  %e = opc.user_op "exp"(x: %x) -> (y) attributes {opc.prepared} : (tensor<4xf32>) -> tensor<4xf32>
  opc.output "y"(%e) : tensor<4xf32>
  return
}

// -----
func.func @unmarked() {
  %w = opc.variable "w" : tensor<4xf32>
  %e = opc.user_op "exp"(x: %w) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("e")
  // expected-error @+1 {{opc.prepared stands at an op that reads e/y_0, another one in each run}}
  %r = opc.user_op "relu"(x: %e) -> (y) attributes {opc.prepared} : (tensor<4xf32>) -> tensor<4xf32>
  opc.output "y"(%r) : tensor<4xf32>
  return
}

// -----
func.func @marked() {
  %w = opc.variable "w" : tensor<4xf32>
  %e = opc.user_op "exp"(x: %w) -> (y) attributes {opc.prepared} : (tensor<4xf32>) -> tensor<4xf32>
  %v = opc.user_op "reshape"(in: %e) -> (out) {shape = #opc.shape<[2, 2]>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %r = opc.user_op "relu"(x: %v) -> (y) attributes {opc.prepared} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  opc.output "y"(%r) : tensor<2x2xf32>
  return
}
