// In a graph for a GPU ops that go element by element there are joined, and none that is placed on the CPU.
// REQUIRES: nvcc
// RUN: opc-opt %s --opc-form-regions="gpu=true" --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-form-regions --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: opc-opt %s --opc-form-regions="gpu=true join=false" --split-input-file | FileCheck %s --check-prefix=ALONE
// RUN: opc-opt %s --opc-form-regions="join=false" --split-input-file | FileCheck %s --check-prefix=ALONE
// RUN: not opc-opt %s --opc-form-regions="gpu=perhaps" 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: 'perhaps' is invalid value for boolean argument
// What has a kernel there needs no region where ops are not joined.
// ALONE-NOT: opc.fused

// CHECK-LABEL: func.func @chain
// CHECK: opc.fused "elementwise"
// CHECK: opc.user_op "exp"
// CHECK: opc.user_op "relu"
// CPU-LABEL: func.func @chain
// CPU: opc.fused "elementwise"
func.func @chain() {
  %x = opc.input "x" : tensor<3x4xf32>
  %0 = opc.user_op "exp"(x: %x) -> (y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = opc.user_op "relu"(x: %0) -> (y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  opc.output "y"(%1) : tensor<3x4xf32>
  return
}

// -----

// CHECK-LABEL: func.func @placed
// CHECK-NOT: opc.fused
func.func @placed() {
  %x = opc.input "x" : tensor<3x4xf32>
  %0 = opc.user_op "exp"(x: %x) -> (y) on <"cpu", 0> : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = opc.user_op "relu"(x: %0) -> (y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  opc.output "y"(%1) : tensor<3x4xf32>
  return
}
