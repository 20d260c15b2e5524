// Asked for is what there is not.
// RUN: opc-opt %s --opc-prune="until=h/y" --split-input-file --verify-diagnostics

// expected-error @+1 {{OPC0005: the graph has no tensor 'h/y'}}
module {
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
  opc.output "y"(%h) : tensor<4xf32>
  return
}
}
