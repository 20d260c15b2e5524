// What reads nothing but constants and variables runs once, where a task of every run reads what it makes.
// RUN: opc-opt %s --opc-prepare --split-input-file | FileCheck %s
// RUN: opc-opt %s --opc-prepare --opc-form-regions --split-input-file | FileCheck %s --check-prefix=REGIONS

// CHECK-LABEL: func.func @weights
// A cast, and what is computed of it through a view; of the product x is another one in each run.
// CHECK: opc.user_op "cast"({{.*}}opc.prepared
// CHECK-NOT: opc.user_op "reshape"({{.*}}opc.prepared
// CHECK: opc.user_op "exp"({{.*}}opc.prepared
// CHECK-NOT: opc.prepared
// CHECK: return
// Both are a loop of their own.
// REGIONS-LABEL: func.func @weights
// REGIONS: opc.fused "elementwise"(%{{.*}}) {opc.prepared}
// REGIONS: opc.user_op "exp"
// REGIONS-NOT: opc.prepared
// REGIONS: opc.user_op "matmul"
// REGIONS: opc.fused "elementwise"
// REGIONS-NOT: opc.prepared
// REGIONS: return
func.func @weights() {
  %x = opc.input "x" : tensor<3x4xf32>
  %w = opc.variable "w" : tensor<16xf16>
  %0 = opc.user_op "cast"(in: %w) -> (out) {dtype = #opc.dtype<2>, pin_memory = false, saturate = true} : (tensor<16xf16>) -> tensor<16xf32>
  %1 = opc.user_op "exp"(x: %0) -> (y) : (tensor<16xf32>) -> tensor<16xf32>
  %2 = opc.user_op "reshape"(in: %1) -> (out) {shape = #opc.shape<[4, 4]>} : (tensor<16xf32>) -> tensor<4x4xf32>
  %3 = opc.user_op "matmul"(a: %x, b: %2) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %4 = opc.user_op "broadcast_add"(x: %3, y: %x) -> (z) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %5 = opc.user_op "relu"(x: %4) -> (y) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  opc.output "y"(%5) : tensor<3x4xf32>
  return
}

// -----
// CHECK-LABEL: func.func @outputs
// A graph without inputs has something to run; so has one with an output of weights alone beside what it runs.
// CHECK-NOT: opc.prepared
// CHECK: return
func.func @outputs() {
  %x = opc.input "x" : tensor<16xf32>
  %w = opc.variable "w" : tensor<16xf32>
  %0 = opc.user_op "exp"(x: %w) -> (y) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = opc.user_op "relu"(x: %0) -> (y) : (tensor<16xf32>) -> tensor<16xf32>
  %2 = opc.user_op "relu"(x: %x) -> (y) : (tensor<16xf32>) -> tensor<16xf32>
  opc.output "w_out"(%1) : tensor<16xf32>
  opc.output "y"(%2) : tensor<16xf32>
  return
}

// -----
// CHECK-LABEL: func.func @large
// What is much larger than what it is made of would stay in memory.
// CHECK-NOT: opc.prepared
// CHECK: return
func.func @large() {
  %x = opc.input "x" : tensor<4096x16xf32>
  %w = opc.variable "w" : tensor<16xf32>
  %0 = opc.user_op "expand"(in: %w) -> (out) {expand_shape = #opc.shape<[4096, 16]>} : (tensor<16xf32>) -> tensor<4096x16xf32>
  %1 = opc.user_op "broadcast_add"(x: %x, y: %0) -> (z) : (tensor<4096x16xf32>, tensor<4096x16xf32>) -> tensor<4096x16xf32>
  opc.output "y"(%1) : tensor<4096x16xf32>
  return
}

// -----
// CHECK-LABEL: func.func @trains
// Weights that an update writes are others in the next step; in such a graph nothing is prepared.
// CHECK-NOT: opc.prepared
// CHECK: return
func.func @trains() {
  %x = opc.input "x" : tensor<16xf32>
  %v = opc.variable "v" : tensor<16xf32>
  %w = opc.variable "w" : tensor<16xf32>
  %0 = opc.user_op "exp"(x: %v) -> (y) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = opc.user_op "broadcast_add"(x: %x, y: %0) -> (z) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  opc.user_op "sgd_update"(model: %w, model_diff: %1) -> () : (tensor<16xf32>, tensor<16xf32>) -> ()
  opc.output "y"(%1) : tensor<16xf32>
  return
}
