// Stages: named ops on their ranks, sources with their readers, what nobody names after the last stage that it reads from.
// RUN: opc-opt %s --opc-place-ops="mesh=4 stage=a*=0-1,b*=2-3" | FileCheck %s
// RUN: opc-opt %s --opc-place-ops="mesh=2x2" | FileCheck %s --check-prefix=WHOLE

// Placement 0 is the whole mesh, 1 and 2 are the stages.
// CHECK: opc.placements = [#opc.placement<[4], [0, 1, 2, 3]>, #opc.placement<[2], [0, 1]>, #opc.placement<[2], [2, 3]>]
// CHECK: opc.input "x" {{.*}}opc.placement = 1
// CHECK: opc.variable "w" {{.*}}opc.placement = 1
// CHECK: "matmul"{{.*}}opc.placement = 1
// CHECK: "relu"{{.*}}opc.placement = 2
// CHECK: "sin"{{.*}}opc.placement = 2
// CHECK: opc.output "y"{{.*}}opc.placement = 2

// WHOLE: opc.placements = [#opc.placement<[2, 2], [0, 1, 2, 3]>]
// WHOLE-NOT: opc.placement =
module {
  func.func @graph() {
    %x = opc.input "x" : tensor<4x8xf32>
    %w = opc.variable "w" : tensor<8x8xf32>
    %a = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("a1")
    %b = opc.user_op "relu"(x: %a) -> (y) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("b1")
    %c = opc.user_op "sin"(x: %b) -> (y) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("unnamed")
    opc.output "y"(%c) : tensor<4x8xf32>
    return
  }
}
