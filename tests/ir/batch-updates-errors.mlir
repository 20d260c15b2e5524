// Batches that are none.
// RUN: opc-opt %s --opc-batch-updates --split-input-file --verify-diagnostics

func.func @makes_something(%x: tensor<2xf32>) {
  opc.fused "updates"(%x) : (tensor<2xf32>) -> () {
  ^bb0(%a: tensor<2xf32>):
    // expected-error @+1 {{stands in an opc.fused of updates, which holds opc.user_op without results}}
    %0 = opc.user_op "exp"(x: %a) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
    opc.yield
  }
  return
}

// -----

func.func @two_writes() {
  // expected-note @+1 {{operand: model: w/out  f32[2]  (variable)}}
  %w = opc.variable "w" : tensor<2xf32>
  // expected-note @+1 {{operand: model_diff: x/out  f32[2]  (input)}}
  %x = opc.input "x" : tensor<2xf32>
  opc.user_op "sgd_update"(model: %w, model_diff: %x) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  // expected-error @+2 {{both write variable 'w', and nothing says which goes first}}
  // expected-note @+1 {{help: order them: give op}}
  opc.user_op "sgd_update"(model: %w, model_diff: %x) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}
