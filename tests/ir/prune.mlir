// What nothing that is asked for needs goes before it has a type.
// RUN: opc-opt %s --opc-prune="until=r/y_0" | FileCheck %s --check-prefix=UNTIL
// RUN: opc-opt %s --opc-prune="until=r/y_0 feed=s/y_0" | FileCheck %s --check-prefix=FEED
// RUN: opc-opt %s --opc-prune="only=h" | FileCheck %s --check-prefix=ONLY
// RUN: opc-opt %s --opc-prune="output=y" | FileCheck %s --check-prefix=OUTPUT
// RUN: opc-opt %s --opc-prune="feed=h/y_0" | FileCheck %s --check-prefix=ALL

// UNTIL: opc.input "x"
// UNTIL-NOT: opc.input "label"
// UNTIL: "exp"
// UNTIL: "relu"
// UNTIL-NOT: opc.user_op
// UNTIL: opc.output "y"
// UNTIL-NOT: opc.output

// A fed tensor keeps what its type follows from.
// FEED: opc.input "label"
// FEED: "sin"

// ONLY: "exp"
// ONLY-NOT: opc.user_op
// ONLY-NOT: opc.output

// Ops that write variables run, whatever is asked for.
// OUTPUT: opc.input "x"
// OUTPUT-NOT: opc.input "label"
// OUTPUT: opc.variable "v"
// OUTPUT: "relu"
// OUTPUT: "assign"
// OUTPUT: opc.output "y"
// OUTPUT-NOT: opc.output

// ALL: "sin"
// ALL: opc.output "loss"
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %label = opc.input "label" : !opc.unresolved
  %v = opc.variable "v" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> !opc.unresolved loc("h")
  %r = opc.user_op "relu"(x: %h) -> (y) : (!opc.unresolved) -> !opc.unresolved loc("r")
  %s = opc.user_op "sin"(x: %label) -> (y) : (!opc.unresolved) -> !opc.unresolved loc("s")
  opc.user_op "assign"(ref: %v, value: %x) -> () : (tensor<4xf32>, tensor<4xf32>) -> () loc("w")
  opc.output "y"(%r) : !opc.unresolved
  opc.output "loss"(%s) : !opc.unresolved
  return
}
