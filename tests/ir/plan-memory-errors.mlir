// No kernel for the dtype: the error lists the kernels there are.
// RUN: opc-opt %s --opc-plan-memory --verify-diagnostics

func.func @graph() {
  // expected-note @+1 {{operand: x: x/out  i32[4]}}
  %x = opc.input "x" {conf = ""} : tensor<4xi32>
  // expected-error @+2 {{OPC0411: no cpu kernel for "exp" with inputs i32}}
  // expected-note @+1 4 {{help: exp/cpu/}}
  %e = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xi32>) -> tensor<4xi32>
  opc.output "y"(%e) {conf = ""} : tensor<4xi32>
  return
}
