// A graph that begins at a tensor, stops at one, or keeps one op alone.
// RUN: opc-opt %s --opc-cut="feed=h/y_0" | FileCheck %s --check-prefix=FEED
// RUN: opc-opt %s --opc-cut="until=r/y_0,h/y_0" | FileCheck %s --check-prefix=UNTIL
// RUN: opc-opt %s --opc-cut="only=r" | FileCheck %s --check-prefix=ONLY
// RUN: opc-opt %s --opc-cut="feed=h/y_0 until=r/y_0" | FileCheck %s --check-prefix=ONLY

// FEED-NOT: opc.input "x"
// FEED-NOT: "exp"
// FEED: %[[H:.*]] = opc.input "h/y_0"
// FEED: "relu"(x: %[[H]])
// FEED: "sin"
// FEED: opc.output "y"

// UNTIL: opc.input "x"
// UNTIL: %[[H:.*]] = opc.user_op "exp"
// UNTIL: %[[R:.*]] = opc.user_op "relu"
// UNTIL-NOT: "sin"
// UNTIL: opc.output "r/y_0"(%[[R]])
// UNTIL: opc.output "h/y_0"(%[[H]])
// UNTIL-NOT: opc.output

// ONLY-NOT: "exp"
// ONLY: %[[H:.*]] = opc.input "h/y_0"
// ONLY: %[[R:.*]] = opc.user_op "relu"(x: %[[H]])
// ONLY-NOT: "sin"
// ONLY: opc.output "r/y_0"(%[[R]])
// ONLY-NOT: opc.output
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
  %r = opc.user_op "relu"(x: %h) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("r")
  %s = opc.user_op "sin"(x: %r) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("s")
  opc.output "y"(%s) : tensor<4xf32>
  return
}
