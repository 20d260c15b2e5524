// Constant folding, no-ops, equal ops, dead ops.
// RUN: opc-opt %s --opc-fold-constants --split-input-file | FileCheck %s --check-prefix=FOLD
// RUN: opc-opt %s --opc-remove-no-ops --split-input-file | FileCheck %s --check-prefix=NOOP
// RUN: opc-opt %s --cse --split-input-file | FileCheck %s --check-prefix=CSE
// RUN: opc-opt %s --opc-eliminate-dead-ops --split-input-file | FileCheck %s --check-prefix=DEAD

// FOLD-LABEL: func.func @constants
// FOLD: opc.constant dense<7.000000e+00> : tensor<2xf32>
// FOLD-NOT: broadcast_add
func.func @constants() {
  %a = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %b = opc.constant dense<4.0> : tensor<2xf32> : tensor<2xf32>
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// FOLD-LABEL: func.func @no_ops
// NOOP-LABEL: func.func @no_ops
// NOOP-NOT: reshape
// NOOP-NOT: cast
func.func @no_ops() {
  %x = opc.input "x" : tensor<2x3xf32>
  %r = opc.user_op "reshape"(in: %x) -> (out) {shape = #opc.shape<[2, 3]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = opc.user_op "cast"(in: %r) -> (out) {dtype = #opc.dtype<2>, pin_memory = false} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  opc.output "y"(%c) : tensor<2x3xf32>
  return
}

// -----

// NOOP-LABEL: func.func @equal
// CSE-LABEL: func.func @equal
// CSE: %[[E:.*]] = opc.user_op "exp"
// CSE-NOT: opc.user_op "exp"
// CSE: opc.user_op "broadcast_add"(x: %[[E]], y: %[[E]])
// Two variables are never one, whatever they are initialised with.
// CSE-LABEL: func.func @variables
// CSE: opc.variable "w1"
// CSE: opc.variable "w2"
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

// DEAD-LABEL: func.func @dead
// DEAD: opc.input "x"
// DEAD: opc.input "unused"
// DEAD-NOT: opc.variable
// DEAD-NOT: "exp"
// DEAD: "relu"
func.func @dead() {
  %x = opc.input "x" : tensor<2xf32>
  %unused = opc.input "unused" : tensor<2xf32>
  %w = opc.variable "w" : tensor<2xf32>
  %e = opc.user_op "exp"(x: %w) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  %r = opc.user_op "relu"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%r) : tensor<2xf32>
  return
}
