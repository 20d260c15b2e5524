// A cut at a tensor that there is not.
// RUN: opc-opt %s --opc-cut="feed=h/y" --split-input-file --verify-diagnostics
// RUN: opc-opt %s --opc-cut="until=h/y" --split-input-file --verify-diagnostics

// expected-error @+1 {{OPC0005: the graph has no tensor 'h/y'}}
module {
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
  %r = opc.user_op "relu"(x: %h) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("r")
  %s = opc.user_op "sin"(x: %r) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("s")
  opc.output "y"(%s) : tensor<4xf32>
  return
}
}
