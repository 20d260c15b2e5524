// The syntax of the dialect: what is printed parses back to the same.
// RUN: opc-opt %s | FileCheck %s
// RUN: opc-opt %s | opc-opt | FileCheck %s
// RUN: opc-opt %s --mlir-print-op-generic | opc-opt | FileCheck %s

// CHECK-LABEL: func.func @graph
func.func @graph() {
  // CHECK: %[[X:.*]] = opc.input "x" : tensor<2x3xf32>
  %x = opc.input "x" : tensor<2x3xf32>
  // CHECK: %[[W:.*]] = opc.variable "w" : tensor<4x3xf32>
  %w = opc.variable "w" : tensor<4x3xf32>
  // CHECK: opc.user_op "matmul"(a: %[[X]], b: %[[W]]) -> (out) {alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = true} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %m = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = true} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  // Variadic arguments are one group of equal names.
  // CHECK: opc.user_op "add_n"(in: %{{.*}}, in: %{{.*}}, in: %{{.*}}) -> (out)
  %s = opc.user_op "add_n"(in: %m, in: %m, in: %m) -> (out) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: {shape = #opc.shape<[4, -1]>}
  %r = opc.user_op "reshape"(in: %s) -> (out) {shape = #opc.shape<[4, -1]>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  // CHECK: dtype = #opc.dtype<3>
  %c = opc.user_op "cast"(in: %r) -> (out) {dtype = #opc.dtype<3>, pin_memory = false} : (tensor<4x2xf32>) -> tensor<4x2xf64>
  // CHECK: opc.constant dense<2.000000e+00> : tensor<2xf32> : tensor<2xf32>
  %k = opc.constant dense<2.0> : tensor<2xf32> : tensor<2xf32>
  // CHECK: opc.output "y"(%{{.*}}) : tensor<4x2xf64>
  opc.output "y"(%c) : tensor<4x2xf64>
  return
}
