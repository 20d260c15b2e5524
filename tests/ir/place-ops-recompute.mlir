// What the backward pass computes again is with the op that computed it first; ops of other stages read that one's result.
// RUN: opc-opt %s --opc-place-ops="mesh=2 stage=a*=0,c*=1" | FileCheck %s

// CHECK: %[[A:.*]] = opc.user_op "sin"{{.*}}opc.placement = 1
// CHECK: %[[T:.*]] = opc.user_op "tanh"(x: %[[A]]){{.*}}opc.placement = 1
// CHECK: opc.user_op "exp"(x: %[[T]]){{.*}}opc.placement = 2
// CHECK-NEXT: %[[A2:.*]] = opc.user_op "sin"{{.*}}opc.placement = 1
// Nobody reads the repeated tanh any more.
// CHECK-NEXT: opc.user_op "relu"(x: %[[T]]){{.*}}opc.placement = 2
// CHECK-NEXT: opc.user_op "cos"(x: %[[A2]]){{.*}}opc.placement = 1
// An op on other inputs repeats nothing.
// CHECK-NEXT: opc.user_op "tanh"
// CHECK: opc.output
module {
  func.func @graph() {
    %x = opc.input "x" : tensor<8x3xf32> loc("x")
    %a1 = opc.user_op "sin"(x: %x) -> (y) : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("a1")
    %a2 = opc.user_op "tanh"(x: %a1) -> (y) : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("a2")
    %c1 = opc.user_op "exp"(x: %a2) -> (y) : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("c1")
    %again1 = opc.user_op "sin"(x: %x) -> (y) role backward : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("again1")
    %again2 = opc.user_op "tanh"(x: %again1) -> (y) role backward : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("again2")
    %c1g = opc.user_op "relu"(x: %again2) -> (y) role backward attributes {opc.gradient_of = "c1"} : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("c1_grad")
    %a1g = opc.user_op "cos"(x: %again1) -> (y) role backward attributes {opc.gradient_of = "a1"} : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("a1_grad")
    %other = opc.user_op "tanh"(x: %c1g) -> (y) role backward : (tensor<8x3xf32>) -> tensor<8x3xf32> loc("other")
    opc.output "c1g"(%other) : tensor<8x3xf32>
    opc.output "a1g"(%a1g) : tensor<8x3xf32>
    return
  }
}
