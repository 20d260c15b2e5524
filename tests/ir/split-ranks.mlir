// Each rank's graph: the types of its pieces, and on each op how the whole is cut. Equal ranks share a graph.
// RUN: opc-opt %s --opc-split-ranks="mesh=2" --split-input-file | FileCheck %s

// The whole graph stays; both ranks have two of the four rows.
// CHECK: func.func @even
// CHECK: opc.input "x" {{.*}}tensor<4x6xf32>
// CHECK: module attributes {{.*}}opc.ranks = array<i32: 0, 1>
// CHECK: %[[X:.*]] = opc.input "x" {{.*}}opc.sharding = {{.*}} : tensor<2x6xf32>
// CHECK: %[[R:.*]] = opc.user_op "relu"(x: %[[X]]){{.*}} : (tensor<2x6xf32>) -> tensor<2x6xf32>
// CHECK: %[[G:.*]] = opc.boxing "all_gather"(%[[R]]){{.*}} : (tensor<2x6xf32>) -> tensor<4x6xf32>
// CHECK: opc.output "y"(%[[G]])
// CHECK-NOT: opc.ranks
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @even() {
    %x = opc.input "x" {opc.sbp = [#opc.state<S(0)>]} : tensor<4x6xf32>
    %r = opc.user_op "relu"(x: %x) -> (y) attributes {opc.sbp = [#opc.state<S(0)>, #opc.state<S(0)>]} : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("r")
    %0 = opc.boxing "all_gather"(%r) dim 0 "sum" [S(0)] -> [B] on 0 -> 0 channel 0 {opc.order = 0 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    opc.output "y"(%0) {opc.sbp = [#opc.state<B>]} : tensor<4x6xf32>
    return
  }
}

// -----

// Five rows: the first rank has three.
// CHECK: func.func @uneven
// CHECK: module attributes {{.*}}opc.ranks = array<i32: 0>
// CHECK: opc.input "x" {{.*}}tensor<3xf32>
// CHECK: module attributes {{.*}}opc.ranks = array<i32: 1>
// CHECK: opc.input "x" {{.*}}tensor<2xf32>
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @uneven() {
    %x = opc.input "x" {opc.sbp = [#opc.state<S(0)>]} : tensor<5xf32>
    opc.output "y"(%x) {opc.sbp = [#opc.state<S(0)>]} : tensor<5xf32>
    return
  }
}

// -----

// Two stages of one rank: each has its ops, and its side of the exchange.
// CHECK: func.func @stages
// CHECK: module attributes {{.*}}opc.ranks = array<i32: 0>
// CHECK: "exp"
// CHECK: opc.boxing "exchange"({{.+}}) {{.*}} -> ()
// CHECK-NOT: "sin"
// CHECK: module attributes {{.*}}opc.ranks = array<i32: 1>
// CHECK-NOT: "exp"
// CHECK: opc.boxing "exchange"() {{.*}} : () -> tensor<4xf32>
// CHECK: "sin"
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>, #opc.placement<[1], [0]>, #opc.placement<[1], [1]>]} {
  func.func @stages() {
    %x = opc.input "x" {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    %a = opc.user_op "exp"(x: %x) -> (y) attributes {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("a")
    %0 = opc.boxing "exchange"(%a) dim -1 "sum" [B] -> [B] on 1 -> 2 channel 0 {opc.order = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %b = opc.user_op "sin"(x: %0) -> (y) attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("b")
    opc.output "y"(%b) {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    return
  }
}
