// What opc makes of a graph for a file, by the one function that both call: it folds what a file can hold, and no more.
// RUN: opc-opt %s --opc-tidy | FileCheck %s

// CHECK-LABEL: func.func @graph
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32> loc("x")
  %a = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32> loc("a")
  %b = opc.constant dense<4.0> : tensor<2xf32> : tensor<2xf32> loc("b")
  %p = opc.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32> loc("p")
  // CHECK: opc.constant dense<7.000000e+00>
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("c")
  // Of several values; its twin, what does nothing and what nobody reads are gone.
  // CHECK-COUNT-1: "broadcast_mul"
  %d = opc.user_op "broadcast_mul"(x: %c, y: %p) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("d")
  %e = opc.user_op "broadcast_mul"(x: %c, y: %p) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("e")
  %f = opc.user_op "identity"(in: %d) -> (out) : (tensor<2xf32>) -> tensor<2xf32> loc("f")
  %g = opc.user_op "relu"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("g")
  // CHECK-NOT: opc.user_op
  // CHECK: opc.output "y"
  opc.output "y"(%f) : tensor<2xf32> loc("y")
  opc.output "z"(%e) : tensor<2xf32> loc("z")
  return
}
