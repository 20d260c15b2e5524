// States that are pinned, and what follows from them: rows give rows, columns give columns, a cut inner dimension gives partial sums.
// RUN: opc-opt %s --opc-assign-signatures="mesh=2 sbp=x=S(0),w=B,r=S(0)" | FileCheck %s --check-prefix=ROWS
// RUN: opc-opt %s --opc-assign-signatures="mesh=2 sbp=x=B,w=S(1),r=S(1)" | FileCheck %s --check-prefix=COLUMNS
// RUN: opc-opt %s --opc-assign-signatures="mesh=2 sbp=m=P,r=B" | FileCheck %s --check-prefix=SUMS

// ROWS: opc.input "x" {{.*}}opc.sbp = [#opc.state<S(0)>]
// ROWS: opc.variable "w" {{.*}}opc.sbp = [#opc.state<B>]
// ROWS: "matmul"{{.*}}opc.sbp = [#opc.state<S(0)>, #opc.state<B>, #opc.state<S(0)>]
// ROWS: "relu"{{.*}}opc.sbp = [#opc.state<S(0)>, #opc.state<S(0)>]
// The caller fetches the whole.
// ROWS: opc.output "y"{{.*}}opc.sbp = [#opc.state<B>]

// COLUMNS: "matmul"{{.*}}opc.sbp = [#opc.state<B>, #opc.state<S(1)>, #opc.state<S(1)>]
// COLUMNS: "relu"{{.*}}opc.sbp = [#opc.state<S(1)>, #opc.state<S(1)>]

// SUMS: "matmul"{{.*}}opc.sbp = [#opc.state<S(1)>, #opc.state<S(0)>, #opc.state<P>]
// SUMS: "relu"{{.*}}opc.sbp = [#opc.state<B>, #opc.state<B>]
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @graph() {
    %x = opc.input "x" : tensor<4x6xf32>
    %w = opc.variable "w" : tensor<6x8xf32>
    %m = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32> loc("m")
    %r = opc.user_op "relu"(x: %m) -> (y) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("r")
    opc.output "y"(%r) : tensor<4x8xf32>
    return
  }
}
