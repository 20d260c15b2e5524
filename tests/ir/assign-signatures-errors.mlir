// Decisions that fit nothing.
// RUN: opc-opt %s --opc-assign-signatures="mesh=2 sbp=r=P" --verify-diagnostics
// RUN: not opc-opt %s --opc-assign-signatures="mesh=2 sbp=nobody=B" 2>&1 | FileCheck %s --check-prefix=NOBODY
// RUN: not opc-opt %s --opc-assign-signatures="mesh=2 sbp={x=[S(0), B]}" 2>&1 | FileCheck %s --check-prefix=DIMS
// RUN: not opc-opt %s --opc-assign-signatures="mesh=2 sbp=x=S(2)" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not opc-opt %s --opc-assign-signatures="mesh=2 device-memory=64" 2>&1 | FileCheck %s --check-prefix=MEMORY

// NOBODY: error: OPC0311: --sbp nobody=B names no tensor or op of the graph
// DIMS: error: OPC0311: --sbp x=[S(0), B] has 2 states, the mesh has 1 dimensions
// AXIS: error: OPC0311: --sbp x=S(2): f32[4,6] cannot be S(2) on 2 on ranks 0-1
// MEMORY: error: OPC0312: the graph does not fit:
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @graph() {
    %x = opc.input "x" : tensor<4x6xf32>
    // expected-error@unknown {{OPC0310: no SBP signature of relu fits what is fixed for it}}
    // expected-note@unknown {{signatures on 2 on ranks 0-1:}}
    // expected-note@unknown {{help: fixed by --sbp r=P; take one of these states or leave it to the planner}}
    %r = opc.user_op "relu"(x: %x) -> (y) : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("r")
    opc.output "y"(%r) : tensor<4x6xf32>
    return
  }
}
