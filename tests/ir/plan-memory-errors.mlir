// No kernel for the dtype: the error lists the kernels there are.
// RUN: opc-opt %s --opc-plan-memory --verify-diagnostics

func.func @graph() {
  // expected-note @+1 {{operand: x: x/out  i32[4]}}
  %x = opc.input "x" : tensor<4xi32>
  // expected-error @+5 {{OPC0411: no cpu kernel for "exp" with inputs i32}}
  // expected-note @+4 {{help: exp/cpu/f32: dtype of x_0 is i32, the kernel wants f32 (built-in)}}
  // expected-note @+3 {{help: exp/cpu/f64}}
  // expected-note @+2 {{help: exp/cpu/f16}}
  // expected-note @+1 {{help: exp/cpu/bf16}}
  %e = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xi32>) -> tensor<4xi32>
  opc.output "y"(%e) : tensor<4xi32>
  return
}
