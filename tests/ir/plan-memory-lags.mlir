// Where a task of the stream lags, an output lives to the end of the run, which is in a later turn: nothing shares its
// memory. Without lags it has that of the first product.
// RUN: opc-opt %s --opc-plan-memory | FileCheck %s
// RUN: sed 's/ attributes {opc.lag = 1 : i64}//' %s | opc-opt --opc-plan-memory | FileCheck %s --check-prefix=ONE

// CHECK: "matmul"{{.*}}opc.offsets = array<i64: [[FIRST:[0-9]+]]>
// CHECK: "matmul"{{.*}}opc.offsets
// CHECK-NOT: "matmul"{{.*}}opc.offsets = array<i64: [[FIRST]]>
// CHECK: opc.output
// ONE: "matmul"{{.*}}opc.offsets = array<i64: [[FIRST:[0-9]+]]>
// ONE: "matmul"{{.*}}opc.offsets
// ONE: "matmul"{{.*}}opc.offsets = array<i64: [[FIRST]]>
func.func @graph() {
  %x = opc.input "x" : tensor<8x8xf32>
  %w = opc.variable "w" : tensor<8x8xf32>
  %a = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = opc.user_op "matmul"(a: %a, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = opc.user_op "matmul"(a: %b, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = opc.user_op "relu"(x: %x) -> (y) attributes {opc.lag = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  opc.output "y"(%c) : tensor<8x8xf32>
  opc.output "z"(%d) : tensor<8x8xf32>
  return
}
