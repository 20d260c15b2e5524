// What has no gradient says so at its op.
// RUN: opc-opt %s --opc-grad="loss=loss wrt=*" --split-input-file --verify-diagnostics

// expected-error @+2 {{OPC0502: --loss loss: the graph has no tensor, output or op of that name}}
// expected-note @+1 {{help: did you mean lost?}}
module {
  func.func @no_loss() {
    %x = opc.input "x" : tensor<3xf32> loc("x")
    opc.output "lost"(%x) : tensor<3xf32> loc("lost")
    return
  }
}

// -----

// expected-error @+2 {{OPC0503: --wrt * matches no floating-point variable, input or tensor}}
// expected-note @+1 {{help: opc show GRAPH --what tensors lists them}}
module {
  func.func @nothing_wanted() {
    %c = opc.user_op "constant"() -> (out) {dtype = #opc.dtype<2>, floating_value = 1.0, integer_value = 0, is_floating_value = true, shape = #opc.shape<[3]>} : () -> tensor<3xf32> loc("c")
    opc.output "loss"(%c) : tensor<3xf32> loc("loss")
    return
  }
}
