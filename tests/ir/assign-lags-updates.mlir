// A variable that every micro-batch updates: those that read it keep the pace of the update, and what they alone read
// from, received or computed, keeps theirs. A second stage that received earlier would wait for the first one before it
// sends what the first one waits for.
// RUN: opc-opt %s --opc-assign-lags="mesh=3 stage=a*=0,b*=1,c*=2 micro-batches=4" | FileCheck %s

// CHECK: on 1 -> 2 channel 2 {opc.lag = 1
// CHECK-NEXT: "sin"{{.*}}opc.lag = 1
// CHECK-NEXT: "add_n"{{.*}}opc.lag = 1
// CHECK-NEXT: on 2 -> 3 channel 2 {opc.order = 1 {{.*}}opc.source_lag = 1
// CHECK-NEXT: "sin"
// CHECK-NOT: opc.lag
// CHECK: on 3 -> 2
// CHECK-SAME: opc.lag = 1
// CHECK-NEXT: "cos"{{.*}}opc.lag = 1
// CHECK-NEXT: "assign"{{.*}}opc.lag = 1
module attributes {opc.placements = [#opc.placement<[3], [0, 1, 2]>, #opc.placement<[1], [0]>, #opc.placement<[1], [1]>, #opc.placement<[1], [2]>]} {
  func.func @graph() {
    %x = opc.input "x" {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32> loc("x")
    %v = opc.variable "v" {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32> loc("v")
    %a = opc.user_op "sin"(x: %x) -> (y) attributes {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("a")
    %0 = opc.boxing "exchange"(%a) dim -1 "sum" [B] -> [B] on 1 -> 2 channel 2 {opc.order = 0 : i64, opc.placement = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %p = opc.user_op "sin"(x: %0) -> (y) attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("before")
    %b = opc.user_op "add_n"(in: %p, in: %v) -> (out) attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>, #opc.state<B>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("b")
    %1 = opc.boxing "exchange"(%b) dim -1 "sum" [B] -> [B] on 2 -> 3 channel 2 {opc.order = 1 : i64, opc.placement = 3 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %c = opc.user_op "sin"(x: %1) -> (y) attributes {opc.placement = 3 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("c")
    %2 = opc.boxing "exchange"(%c) dim -1 "sum" [B] -> [B] on 3 -> 2 channel 3 {opc.order = 2 : i64, opc.placement = 2 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    %g = opc.user_op "cos"(x: %2) -> (y) role backward attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("b_grad")
    opc.user_op "assign"(ref: %v, value: %g) -> () role optimizer attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>, tensor<4xf32>) -> () loc("update")
    return
  }
}
