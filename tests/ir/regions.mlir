// An op with a region, and sizes of which only a bound is known.
// RUN: opc-opt %s | opc-opt | FileCheck %s

func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  // CHECK: %[[Y:.*]] = opc.fused "relu_exp"(%{{.*}}) on <"cpu", 0> : (tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>):
  // CHECK-NEXT: %[[R:.*]] = opc.user_op "relu"(x: %[[A]]) -> (y)
  // CHECK-NEXT: %[[E:.*]] = opc.user_op "exp"(x: %[[R]]) -> (y)
  // CHECK-NEXT: opc.yield %[[E]] : tensor<4xf32>
  %y = opc.fused "relu_exp"(%x) on <"cpu", 0> : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %0 = opc.user_op "relu"(x: %a) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = opc.user_op "exp"(x: %0) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
    opc.yield %1 : tensor<4xf32>
  }
  opc.output "y"(%y) : tensor<4xf32>
  // CHECK: opc.input "rows" : tensor<?x4xf32, #opc.bound<8, 4>>
  %rows = opc.input "rows" : tensor<?x4xf32, #opc.bound<8, 4>>
  return
}
