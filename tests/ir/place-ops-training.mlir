// Ops that no stage names: backward ops are with their forward ops, updates and accumulators with what they update, what
// is computed of variables alone with its readers; what needs something of several stages is on all ranks.
// RUN: opc-opt %s --opc-place-ops="mesh=2 stage=a=0,c=1" | FileCheck %s

// CHECK: opc.variable "w" {{.*}}opc.placement = 1
// CHECK-NEXT: opc.variable "v" {{.*}}opc.placement = 1
// CHECK-NEXT: opc.variable "v-accumulated" {{.*}}opc.placement = 1
// half, a, r, c; e: the last of the stages that it reads from.
// CHECK-NEXT: "sin"{{.*}}opc.placement = 1
// CHECK-NEXT: "add_n"{{.*}}opc.placement = 1
// CHECK-NEXT: "add_n"{{.*}}opc.placement = 1
// CHECK-NEXT: "sin"{{.*}}opc.placement = 2
// CHECK-NEXT: "add_n"{{.*}}opc.placement = 2
// CHECK-NEXT: gradient_of = "e", opc.placement = 2
// It reads a gradient of the second stage and a tensor of the first.
// CHECK-NEXT: gradient_of = "r", opc.placement = 1
// kept, total, and what they update.
// CHECK-NEXT: "sin"{{.*}}opc.placement = 1
// CHECK-NEXT: "add_n"{{.*}}opc.placement = 1
// CHECK-NEXT: "assign"{{.*}}opc.placement = 1
// CHECK-NEXT: "assign"{{.*}}opc.placement = 1
// CHECK-NEXT: "add_n"
// CHECK-NOT: opc.placement
// CHECK: opc.output
module {
  func.func @graph() {
    %x = opc.input "x" : tensor<4xf32> loc("x")
    %w = opc.variable "w" : tensor<4xf32> loc("w")
    %v = opc.variable "v" : tensor<4xf32> loc("v")
    %s = opc.variable "v-accumulated" : tensor<4xf32> loc("v-accumulated")
    %half = opc.user_op "sin"(x: %w) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("half")
    %a = opc.user_op "add_n"(in: %x, in: %half) -> (out) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("a")
    %r = opc.user_op "add_n"(in: %a, in: %v) -> (out) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("r")
    %c = opc.user_op "sin"(x: %r) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("c")
    %e = opc.user_op "add_n"(in: %c, in: %a) -> (out) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("e")
    %eg = opc.user_op "cos"(x: %e) -> (y) role backward attributes {opc.gradient_of = "e"} : (tensor<4xf32>) -> tensor<4xf32> loc("e_grad")
    %rg = opc.user_op "add_n"(in: %eg, in: %r) -> (out) role backward attributes {opc.gradient_of = "r"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("r_grad")
    %k = opc.user_op "sin"(x: %s) -> (y) role accumulation : (tensor<4xf32>) -> tensor<4xf32> loc("kept")
    %t = opc.user_op "add_n"(in: %k, in: %rg) -> (out) role accumulation : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("total")
    opc.user_op "assign"(ref: %s, value: %t) -> () role accumulation : (tensor<4xf32>, tensor<4xf32>) -> () loc("accumulator")
    opc.user_op "assign"(ref: %v, value: %t) -> () role optimizer : (tensor<4xf32>, tensor<4xf32>) -> () loc("update")
    %n = opc.user_op "add_n"(in: %t, in: %eg) -> (out) role optimizer : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("norm")
    opc.output "y"(%n) : tensor<4xf32> loc("y")
    return
  }
}
