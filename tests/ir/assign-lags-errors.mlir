// A graph that adds up the gradients of another number of steps.
// RUN: opc-opt %s --opc-assign-lags="mesh=2 micro-batches=4" --verify-diagnostics

// expected-error @+2 {{OPC0314: --micro-batches 4, and the graph adds up the gradients of 3 steps}}
// expected-note @+1 {{help: --micro-batches 3, or opc grad --accumulate 4}}
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @graph() {
    %x = opc.input "x" : tensor<1xi64>
    %m = opc.user_op "scalar_fmod"(in: %x) -> (out) role accumulation {float_operand = 0.0 : f64, has_float_operand = false, has_int_operand = true, int_operand = 3 : i64} : (tensor<1xi64>) -> tensor<1xi64> loc("micro_batch")
    opc.output "y"(%m) : tensor<1xi64>
    return
  }
}
