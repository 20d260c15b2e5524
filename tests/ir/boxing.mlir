// The op of a transition: its printed form is read back, alone and in a bucket, whole and as a rank's pieces.
// RUN: opc-opt %s | opc-opt | FileCheck %s

module attributes {opc.placements = [#opc.placement<[2], [0, 1]>, #opc.placement<[1], [1]>]} {
func.func @graph() {
  %x = opc.input "x" {opc.sbp = [#opc.state<P>]} : tensor<4x6xf32>
  %y = opc.input "y" {opc.sbp = [#opc.state<P>]} : tensor<8xf32>
  // CHECK: opc.boxing "all_reduce"(%{{.*}}) dim 0 "sum" [P] -> [B] on 0 -> 0 channel 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = opc.boxing "all_reduce"(%x) dim 0 "sum" [P] -> [B] on 0 -> 0 channel 0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: %{{.*}}:2 = opc.boxing "reduce_scatter"(%{{.*}}, %{{.*}}) dim 0 "sum" [P, P] -> [S(1), S(0)] on 0 -> 0 channel 1 : (tensor<4x6xf32>, tensor<8xf32>) -> (tensor<4x3xf32>, tensor<4xf32>)
  %1:2 = opc.boxing "reduce_scatter"(%x, %y) dim 0 "sum" [P, P] -> [S(1), S(0)] on 0 -> 0 channel 1 : (tensor<4x6xf32>, tensor<8xf32>) -> (tensor<4x3xf32>, tensor<4xf32>)
  // A rank that only sends.
  // CHECK: opc.boxing "exchange"(%{{.*}}) dim -1 "sum" [B] -> [B] on 0 -> 1 channel 2 : (tensor<4x6xf32>) -> ()
  opc.boxing "exchange"(%0) dim -1 "sum" [B] -> [B] on 0 -> 1 channel 2 : (tensor<4x6xf32>) -> ()
  opc.output "a"(%1#0) : tensor<4x3xf32>
  opc.output "b"(%1#1) : tensor<4xf32>
  return
}
}
