// Ops without a kernel for the GPU go to the CPU, with copies of what the two sides hand each other.
// REQUIRES: nvcc
// RUN: opc-opt %s --opc-assign-devices="fallback=true" --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-assign-devices --split-input-file | FileCheck %s --check-prefix=ALONE

// What is placed stays, x is read on both sides and copied once, w on the CPU alone.
// CHECK-LABEL: @placed
// CHECK: %[[X:.*]] = opc.input "x"
// CHECK: %[[W:.*]] = opc.variable "w"
// CHECK: %[[A:.*]] = opc.user_op "exp"(x: %[[X]]) -> (y) :
// CHECK: %[[XC:.*]] = opc.user_op "copy"(in: %[[X]]) -> (out) on <"cpu", 0>
// CHECK: %[[B:.*]] = opc.user_op "broadcast_add"(x: %[[XC]], y: %[[W]]) -> (z) on <"cpu", 0>
// CHECK: %[[C:.*]] = opc.user_op "relu"(x: %[[XC]]) -> (y) on <"cpu", 0>
// CHECK: %[[BG:.*]] = opc.user_op "copy"(in: %[[B]]) -> (out) on <"gpu", 0>
// CHECK: opc.user_op "broadcast_add"(x: %[[A]], y: %[[BG]]) -> (z) :
// CHECK-NOT: "copy"
// ALONE-LABEL: @placed
// ALONE-COUNT-2: "copy"
// ALONE-NOT: "copy"
// ALONE: @written
func.func @placed() {
  %x = opc.input "x" : tensor<4xf32>
  %w = opc.variable "w" : tensor<4xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("a")
  %b = opc.user_op "broadcast_add"(x: %x, y: %w) -> (z) on <"cpu", 0> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("b")
  %c = opc.user_op "relu"(x: %x) -> (y) on <"cpu", 0> : (tensor<4xf32>) -> tensor<4xf32> loc("c")
  %d = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("d")
  opc.output "c"(%c) : tensor<4xf32>
  opc.output "d"(%d) : tensor<4xf32>
  return
}

// -----

// A variable that the device writes is read by a copy there first.
// CHECK-LABEL: @written
// CHECK: %[[V:.*]] = opc.variable "v"
// CHECK: %[[R:.*]] = opc.user_op "copy"(in: %[[V]]) -> (out) :
// CHECK: %[[H:.*]] = opc.user_op "copy"(in: %[[R]]) -> (out) on <"cpu", 0>
// CHECK: %[[E:.*]] = opc.user_op "exp"(x: %[[H]]) -> (y) on <"cpu", 0>
// CHECK: %[[D:.*]] = opc.user_op "copy"(in: %[[E]]) -> (out) on <"gpu", 0>
// CHECK: "assign"(ref: %[[V]], value: %[[D]]) -> () :
func.func @written() {
  %v = opc.variable "v" : tensor<4xf32>
  %e = opc.user_op "exp"(x: %v) -> (y) on <"cpu", 0> : (tensor<4xf32>) -> tensor<4xf32> loc("e")
  opc.user_op "assign"(ref: %v, value: %e) -> () : (tensor<4xf32>, tensor<4xf32>) -> () loc("set")
  opc.output "e"(%e) : tensor<4xf32>
  return
}

// -----

// Views stay where their tensor is when nobody else reads them; a graph without an op on the CPU is left alone.
// CHECK-LABEL: @views
// CHECK: "exp"{{.*}} on <"cpu", 0>
// CHECK: "reshape"{{.*}} on <"cpu", 0>
// CHECK: "relu"{{.*}} on <"cpu", 0>
// CHECK-NOT: "copy"
func.func @views() {
  %x = opc.input "x" : tensor<4xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) on <"cpu", 0> : (tensor<4xf32>) -> tensor<4xf32> loc("a")
  %b = opc.user_op "reshape"(in: %a) -> (out) {shape = #opc.shape<[2, 2]>} : (tensor<4xf32>) -> tensor<2x2xf32> loc("b")
  %c = opc.user_op "relu"(x: %b) -> (y) on <"cpu", 0> : (tensor<2x2xf32>) -> tensor<2x2xf32> loc("c")
  opc.output "c"(%c) : tensor<2x2xf32>
  return
}

// -----

// CHECK-LABEL: @device_alone
// CHECK-NOT: on <
func.func @device_alone() {
  %x = opc.input "x" : tensor<4xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("a")
  opc.output "a"(%a) : tensor<4xf32>
  return
}

// -----

// What the data alone puts behind a write is copied behind it, also through a view; what is not is copied before.
// CHECK-LABEL: @after
// CHECK: %[[M:.*]] = opc.variable "m"
// CHECK: "normalization"
// CHECK: opc.user_op "copy"(in: %[[M]]) -> (out) attributes {opc.ctrl_in = ["norm"]}
// CHECK: opc.user_op "expand_dims"(in: %[[M]])
// CHECK: opc.user_op "copy"{{.*}}opc.ctrl_in = ["norm"]
// CHECK: opc.user_op "copy"(in: %[[M]]) -> (out) :
// CHECK-NOT: ctrl_in
func.func @after() {
  %x = opc.input "x" : tensor<8x3xf32>
  %m = opc.variable "m" : tensor<3xf32>
  %v = opc.variable "v" : tensor<3xf32>
  %g = opc.variable "g" : tensor<3xf32>
  %b = opc.variable "b" : tensor<3xf32>
  %y = opc.user_op "normalization"(x: %x, moving_mean: %m, moving_variance: %v, gamma: %g, beta: %b) -> (y) {axis = 1 : si32, training = true, momentum = 0.75 : f32, epsilon = 0.1 : f32} : (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<8x3xf32> loc("norm")
  %late = opc.user_op "broadcast_add"(x: %y, y: %m) -> (z) on <"cpu", 0> : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32> loc("late")
  %row = opc.user_op "expand_dims"(in: %m) -> (out) {axis = 0 : si32} : (tensor<3xf32>) -> tensor<1x3xf32> loc("row")
  %viewed = opc.user_op "broadcast_add"(x: %y, y: %row) -> (z) on <"cpu", 0> : (tensor<8x3xf32>, tensor<1x3xf32>) -> tensor<8x3xf32> loc("viewed")
  %early = opc.user_op "broadcast_add"(x: %x, y: %m) -> (z) on <"cpu", 0> : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32> loc("early")
  opc.output "late"(%late) : tensor<8x3xf32>
  opc.output "viewed"(%viewed) : tensor<8x3xf32>
  opc.output "early"(%early) : tensor<8x3xf32>
  return
}
