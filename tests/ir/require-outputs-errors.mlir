// A graph that nobody would read from.
// RUN: opc-opt %s --opc-require-outputs --verify-diagnostics

// expected-error @+2 {{OPC0111: the graph has no output}}
// expected-note @+1 {{help: add op}}
module {
  func.func @graph() {
    %x = opc.input "x" : tensor<4xf32>
    %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
    return
  }
}
