// Ops whose operands are constants are run; large results are left for run time, uneven ones where a file could not hold them.
// RUN: opc-opt %s --opc-fold-constants --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-fold-constants="max-bytes=4" --split-input-file | FileCheck %s --check-prefix=SMALL
// RUN: opc-opt %s --opc-fold-constants="splats-only" --split-input-file | FileCheck %s --check-prefix=SPLAT

// CHECK-LABEL: func.func @constants
// SMALL-LABEL: func.func @constants
// SPLAT-LABEL: func.func @constants
// 8 bytes of result.
// SMALL: broadcast_add
// SPLAT: opc.constant dense<7.000000e+00>
// CHECK: opc.constant dense<7.000000e+00> : tensor<2xf32>
// CHECK-NOT: broadcast_add
func.func @constants() {
  %a = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %b = opc.constant dense<4.0> : tensor<2xf32> : tensor<2xf32>
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// A chain folds in one walk: (1, 2) + (3, 3) = (4, 5), times itself (16, 25).
// CHECK-LABEL: func.func @chain
// CHECK: opc.constant dense<[1.600000e+01, 2.500000e+01]> : tensor<2xf32>
// CHECK-NOT: opc.user_op
// SPLAT-LABEL: func.func @chain
// SPLAT: broadcast_add
// SPLAT: broadcast_mul
func.func @chain() {
  %a = opc.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %b = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %c = opc.user_op "broadcast_add"(x: %a, y: %b) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %d = opc.user_op "broadcast_mul"(x: %c, y: %c) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%d) : tensor<2xf32>
  return
}

// -----

// What has an effect or reads what is fed is not run.
// CHECK-LABEL: func.func @kept
// CHECK: "assign"
// CHECK: broadcast_add
func.func @kept() {
  %x = opc.input "x" : tensor<2xf32>
  %w = opc.variable "w" : tensor<2xf32>
  %a = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  opc.user_op "assign"(ref: %w, value: %a) -> () : (tensor<2xf32>, tensor<2xf32>) -> ()
  %c = opc.user_op "broadcast_add"(x: %a, y: %x) -> (z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%c) : tensor<2xf32>
  return
}

// -----

// Of the backward pass: the constant says whose gradient it is part of, as its op did.
// CHECK-LABEL: func.func @gradient
// CHECK: opc.constant {{.*}}opc.gradient_of = "f"
// CHECK-NOT: opc.user_op
func.func @gradient() {
  %a = opc.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %b = opc.user_op "broadcast_add"(x: %a, y: %a) -> (z) role backward attributes {opc.gradient_of = "f"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  opc.output "y"(%b) : tensor<2xf32>
  return
}
