// Two stages, forward and back: the first stage's backward op works on the micro-batch before the forward one's.
// RUN: opc-opt %s --opc-assign-lags="mesh=2 stage=a*=0,b*=1 micro-batches=4" | FileCheck %s
// RUN: opc-opt %s --opc-assign-lags="mesh=2 stage=a*=0,b*=1" | FileCheck %s --check-prefix=ONE

// CHECK: "exp"
// CHECK-NOT: opc.lag
// CHECK: "sin"
// The boxing back to the first stage: its target is one micro-batch behind, its source is not.
// CHECK: opc.boxing "exchange"{{.*}} on 2 -> 1
// CHECK-SAME: opc.lag = 1
// CHECK: "cos"{{.*}}opc.lag = 1
// ONE-NOT: opc.lag
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>, #opc.placement<[1], [0]>, #opc.placement<[1], [1]>]} {
  func.func @graph() {
    %x = opc.input "x" {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    %a = opc.user_op "exp"(x: %x) -> (y) attributes {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("a")
    %0 = opc.boxing "exchange"(%a) dim -1 "sum" [B] -> [B] on 1 -> 2 channel 0 {opc.order = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %b = opc.user_op "sin"(x: %0) -> (y) attributes {opc.placement = 2 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("b")
    %1 = opc.boxing "exchange"(%b) dim -1 "sum" [B] -> [B] on 2 -> 1 channel 0 {opc.order = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %c = opc.user_op "cos"(x: %1) -> (y) attributes {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4xf32>) -> tensor<4xf32> loc("a_back")
    opc.output "y"(%c) {opc.placement = 1 : i32, opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    return
  }
}
