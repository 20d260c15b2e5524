// Boxings are numbered in the order of the graph.
// RUN: opc-opt %s --opc-number-boxings | FileCheck %s

// CHECK: opc.boxing "all_reduce"{{.*}}opc.order = 0
// CHECK: opc.boxing "all_gather"{{.*}}opc.order = 1
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @graph() {
    %x = opc.input "x" {opc.sbp = [#opc.state<P>]} : tensor<4xf32>
    %y = opc.input "y" {opc.sbp = [#opc.state<S(0)>]} : tensor<4xf32>
    %0 = opc.boxing "all_reduce"(%x) dim 0 "sum" [P] -> [B] on 0 -> 0 channel 0 : (tensor<4xf32>) -> tensor<4xf32>
    %1 = opc.boxing "all_gather"(%y) dim 0 "sum" [S(0)] -> [B] on 0 -> 0 channel 0 : (tensor<4xf32>) -> tensor<4xf32>
    opc.output "a"(%0) {opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    opc.output "b"(%1) {opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    return
  }
}
