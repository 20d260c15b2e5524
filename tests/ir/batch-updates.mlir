// Updates of variables become one op, but for those that must wait for nobody or keep too much alive.
// RUN: opc-opt %s --opc-batch-updates --split-input-file | FileCheck %s

// Gradients that are inputs are alive anyway: both updates are one task, behind what has stood between them.
// CHECK-LABEL: @two
// CHECK: "exp"
// CHECK-NEXT: opc.fused "updates"(%{{.*}}, %{{.*}}, %{{.*}})
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT: "sgd_update"(model: %[[A]], model_diff: %[[X]])
// CHECK-NEXT: "sgd_update"(model: %[[B]], model_diff: %[[X]])
// CHECK-NEXT: opc.yield
// CHECK-NOT: _update
func.func @two() {
  %a = opc.variable "a" : tensor<4xf32>
  %b = opc.variable "b" : tensor<4xf32>
  %x = opc.input "x" : tensor<4xf32>
  opc.user_op "sgd_update"(model: %a, model_diff: %x) -> () : (tensor<4xf32>, tensor<4xf32>) -> ()
  %e = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
  opc.user_op "sgd_update"(model: %b, model_diff: %x) -> () : (tensor<4xf32>, tensor<4xf32>) -> ()
  opc.output "e"(%e) : tensor<4xf32>
  return
}

// -----

// Each gradient takes the memory of the one before: none can wait.
// CHECK-LABEL: @peak
// CHECK-NOT: opc.fused
func.func @peak() {
  %a = opc.variable "a" : tensor<4096xf32>
  %b = opc.variable "b" : tensor<4096xf32>
  %x = opc.input "x" : tensor<4096xf32>
  %g = opc.user_op "exp"(x: %x) -> (y) : (tensor<4096xf32>) -> tensor<4096xf32>
  opc.user_op "sgd_update"(model: %a, model_diff: %g) -> () : (tensor<4096xf32>, tensor<4096xf32>) -> ()
  %h = opc.user_op "tanh"(x: %x) -> (y) : (tensor<4096xf32>) -> tensor<4096xf32>
  opc.user_op "sgd_update"(model: %b, model_diff: %h) -> () : (tensor<4096xf32>, tensor<4096xf32>) -> ()
  return
}

// -----

// A reader of the new value, and updates whose kernels need the whole layer.
// CHECK-LABEL: @apart
// CHECK-NOT: opc.fused
func.func @apart() {
  %a = opc.variable "a" : tensor<4xf32>
  %b = opc.variable "b" : tensor<4xf32>
  %c = opc.variable "c" : tensor<4xf32>
  %m = opc.variable "m" : tensor<4xf32>
  %x = opc.input "x" : tensor<4xf32>
  opc.user_op "sgd_update"(model: %b, model_diff: %a) -> () : (tensor<4xf32>, tensor<4xf32>) -> ()
  opc.user_op "sgd_update"(model: %a, model_diff: %x) -> () : (tensor<4xf32>, tensor<4xf32>) -> ()
  opc.user_op "lars_update"(model: %c, model_diff: %x, momentum: %m) -> () : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  return
}
