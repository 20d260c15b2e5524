// Reverse accumulation: rules, derived gradients, sums of several contributions, broadcasts, recomputation, updates.
// RUN: opc-opt %s --opc-grad="loss=loss wrt=*" --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-grad="loss=loss wrt=* segments=2" --split-input-file | FileCheck %s --check-prefix=AGAIN

// A tensor that two ops read gets the sum of two gradients; the loss is seeded with ones.
// CHECK-LABEL: @two_consumers
// CHECK: %[[X:.*]] = opc.input "x"
// CHECK: %[[S:.*]] = opc.user_op "sin"(x: %[[X]])
// CHECK: %[[C:.*]] = opc.user_op "cos"(x: %[[X]])
// CHECK: %[[ONE:.*]] = opc.user_op "constant_like"
// CHECK-SAME: floating_value = 1.0
// CHECK-DAG: %[[DS:.*]] = opc.user_op "sin_grad"(x: %[[X]]{{.*}} role backward attributes {opc.gradient_of = "s"}
// CHECK-DAG: %[[DC:.*]] = opc.user_op "cos_grad"(x: %[[X]]
// CHECK: %[[SUM:.*]] = opc.user_op "add_n"
// CHECK: opc.output "x.grad"(%[[SUM]])
func.func @two_consumers() {
  %x = opc.input "x" : tensor<3xf32> loc("x")
  %s = opc.user_op "sin"(x: %x) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("s")
  %c = opc.user_op "cos"(x: %x) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("c")
  %l = opc.user_op "add_n"(in: %s, in: %c) -> (out) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> loc("sum")
  opc.output "loss"(%l) : tensor<3xf32> loc("loss")
  return
}

// -----

// What was broadcast is summed; the second operand's derived op has its name.
// CHECK-LABEL: @broadcast
// CHECK: %[[W:.*]] = opc.variable "w"
// CHECK: %[[G:.*]] = opc.user_op "broadcast_pow_y_grad"
// CHECK: %[[R:.*]] = opc.user_op "reduce_sum_like"(x: %[[G]], like: %[[W]])
// CHECK-SAME: axis = array<i32: 0>
// CHECK: opc.output "w.grad"(%[[R]])
func.func @broadcast() {
  %x = opc.input "x" : tensor<2x3xf32> loc("x")
  %w = opc.variable "w" : tensor<3xf32> loc("w")
  %p = opc.user_op "broadcast_pow"(x: %x, y: %w) -> (z) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> loc("p")
  opc.output "loss"(%p) : tensor<2x3xf32> loc("loss")
  return
}

// -----

// Gradients end at ops without one; the constant path adds nothing.
// CHECK-LABEL: @stops
// CHECK-NOT: argmax_grad
// CHECK: opc.user_op "multiply"(x: %{{.*}}, y: %{{.*}})
// CHECK: opc.output "x.grad"
func.func @stops() {
  %x = opc.input "x" : tensor<2x3xf32> loc("x")
  %a = opc.user_op "argmax"(in: %x) -> (out) : (tensor<2x3xf32>) -> tensor<2xi64> loc("a")
  %f = opc.user_op "cast"(in: %a) -> (out) {dtype = #opc.dtype<2>, pin_memory = false} : (tensor<2xi64>) -> tensor<2xf32> loc("f")
  %r = opc.user_op "reshape"(in: %f) -> (out) {shape = #opc.shape<[2, 1]>} : (tensor<2xf32>) -> tensor<2x1xf32> loc("r")
  %e = opc.user_op "exp"(x: %x) -> (y) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("e")
  %m = opc.user_op "broadcast_add"(x: %e, y: %r) -> (z) : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32> loc("m")
  opc.output "loss"(%m) : tensor<2x3xf32> loc("loss")
  return
}

// -----

// In two segments the first half is cloned for the backward pass, after the gradient that needs it.
// AGAIN-LABEL: @chain
// AGAIN: opc.output "loss"
// AGAIN: opc.user_op "constant_like"
// AGAIN: %[[G2:.*]] = opc.user_op "sin_grad"
// AGAIN: %[[CLONE:.*]] = opc.user_op "sin"(x: %{{.*}}) -> (y) role backward attributes {opc.ctrl_in = [
// AGAIN: opc.user_op "sin_grad"(x: %[[CLONE]]
func.func @chain() {
  %x = opc.input "x" : tensor<3xf32> loc("x")
  %a = opc.user_op "sin"(x: %x) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("a")
  %b = opc.user_op "sin"(x: %a) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("b")
  %c = opc.user_op "sin"(x: %b) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("c")
  %d = opc.user_op "sin"(x: %c) -> (y) : (tensor<3xf32>) -> tensor<3xf32> loc("d")
  opc.output "loss"(%d) : tensor<3xf32> loc("loss")
  return
}
