// Stages that name nothing, ranks that are named twice, meshes and stages that are none.
// RUN: not opc-opt %s --opc-place-ops="mesh=4 stage=a*=0-1,nothing*=2-3" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not opc-opt %s --opc-place-ops="mesh=4 stage={{a*=0,0}}" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not opc-opt %s --opc-place-ops="mesh=2x" 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: opc-opt %s --opc-place-ops="mesh=4 stage=b*" --verify-diagnostics

// GLOB: error: OPC0313: --stage 'nothing*' names no op of the graph
// GLOB: note: help: opc show GRAPH --what ops lists them
// TWICE: error: OPC0313: --stage 'a*' names rank 0 twice
// MESH: error: OPC0001: mesh does not take '2x'
// expected-error @+1 {{OPC0001: stage does not take 'b*'}}
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
