// Writes to variables: every reader of the old value first, control dependences kept, nothing merged or dropped.
// RUN: opc-opt %s --opc-schedule --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-remove-no-ops --cse --opc-eliminate-dead-ops --opc-schedule --split-input-file | FileCheck %s

// The write stands first in the graph; both reads run before it.
// CHECK-LABEL: @readers_first
// CHECK: "exp"
// CHECK: "relu"
// CHECK: "assign"
func.func @readers_first() {
  %w = opc.variable "w" : tensor<2xf32>
  %x = opc.input "x" : tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %x) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  %e = opc.user_op "exp"(x: %w) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  %v = opc.user_op "reshape"(in: %w) -> (out) {shape = #opc.shape<[2, 1]>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %r = opc.user_op "relu"(x: %v) -> (y) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  opc.output "e"(%e) : tensor<2xf32>
  opc.output "r"(%r) : tensor<2x1xf32>
  return
}

// -----

// Equal reads before and after the write are two ops; the one that is ordered after it sees the new value.
// CHECK-LABEL: @control
// CHECK: %[[OLD:.*]] = opc.user_op "exp"
// CHECK: "assign"
// CHECK: %[[NEW:.*]] = opc.user_op "exp"
// CHECK-DAG: opc.output "old"(%[[OLD]])
// CHECK-DAG: opc.output "new"(%[[NEW]])
func.func @control() {
  %w = opc.variable "w" : tensor<2xf32>
  %x = opc.input "x" : tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %x) -> () attributes {opc.ordered} : (tensor<2xf32>, tensor<2xf32>) -> () loc("set")
  %a = opc.user_op "exp"(x: %w) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  %b = opc.user_op "exp"(x: %w) -> (y) attributes {opc.ctrl_in = ["set"]} : (tensor<2xf32>) -> tensor<2xf32>
  opc.output "old"(%a) : tensor<2xf32>
  opc.output "new"(%b) : tensor<2xf32>
  return
}

// -----

// Two ordered writes: the read before both, the second write last.
// CHECK-LABEL: @two_writes
// CHECK: "exp"
// CHECK: "assign"(ref: %{{.*}}, value: %[[FIRST:.*]]) -> () attributes {opc.ordered}
// CHECK: "assign"
func.func @two_writes() {
  %w = opc.variable "w" : tensor<2xf32>
  %x = opc.input "x" : tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %x) -> () attributes {opc.ctrl_in = ["first"]} : (tensor<2xf32>, tensor<2xf32>) -> () loc("second")
  opc.user_op "assign"(ref: %w, value: %x) -> () attributes {opc.ordered} : (tensor<2xf32>, tensor<2xf32>) -> () loc("first")
  %e = opc.user_op "exp"(x: %w) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  opc.output "e"(%e) : tensor<2xf32>
  return
}
