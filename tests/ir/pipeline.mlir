// What opc compile runs, from untyped ops to each rank's schedule, by the one function that both call.
// RUN: opc-opt %s --opc-pipeline="to=tasks" | FileCheck %s --check-prefix=ONE
// RUN: opc-opt %s --opc-pipeline="to=tasks mesh=2" | FileCheck %s --check-prefix=TWO
// RUN: opc-opt %s --opc-pipeline="to=grad loss=y" | FileCheck %s --check-prefix=GRAD

// ONE: "matmul"{{.*}} -> tensor<4x8xf32>
// ONE: opc.output "y"
// TWO: opc.placements = [#opc.placement<[2], [0, 1]>]
// TWO: opc.ranks = array<i32: 0, 1>
// GRAD: "matmul"
// GRAD: opc.output "w.grad"
func.func @graph() {
  %x = opc.input "x" : tensor<4x6xf32> loc("x")
  %w = opc.variable "w" : tensor<6x8xf32> loc("w")
  %m = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x6xf32>, tensor<6x8xf32>) -> !opc.unresolved loc("m")
  opc.output "y"(%m) : !opc.unresolved loc("y")
  return
}
