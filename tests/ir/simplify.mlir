// The phase: folding, no-ops, equal ops, dead ops, in the order in which opc compile runs them.
// RUN: opc-opt %s --cse --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-pipeline="to=simplify" --split-input-file | FileCheck %s --check-prefix=PHASE

// CHECK-LABEL: func.func @equal
// PHASE-LABEL: func.func @equal
// CHECK: %[[E:.*]] = opc.user_op "exp"
// CHECK-NOT: opc.user_op "exp"
// CHECK: opc.user_op "broadcast_add"(x: %[[E]], y: %[[E]])
// Two variables are never one, whatever they are initialised with.
// CHECK-LABEL: func.func @variables
// CHECK: opc.variable "w1"
// CHECK: opc.variable "w2"
func.func @equal() {
  %x = opc.input "x" : tensor<2xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("a")
  %b = opc.user_op "exp"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("b")
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}
func.func @variables() {
  %w1 = opc.variable "w1" : tensor<2xf32>
  %w2 = opc.variable "w2" : tensor<2xf32>
  %c = opc.user_op "broadcast_add"(x: %w1, y: %w2) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// Without the view the two are equal; what only the second needed is dead.
// PHASE-LABEL: func.func @together
// PHASE-NOT: reshape
// PHASE: %[[E:.*]] = opc.user_op "exp"
// PHASE-NOT: opc.user_op "exp"
// PHASE: opc.user_op "broadcast_add"(x: %[[E]], y: %[[E]])
func.func @together() {
  %x = opc.input "x" : tensor<2xf32>
  %v = opc.user_op "reshape"(in: %x) -> (out) {shape = #opc.shape<[2]>} : (tensor<2xf32>) -> tensor<2xf32>
  %a = opc.user_op "exp"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("a")
  %b = opc.user_op "exp"(x: %v) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("b")
  %dead = opc.user_op "relu"(x: %v) -> (y) : (tensor<2xf32>) -> tensor<2xf32> loc("dead")
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}
