// A transition stands where a reader wants another state, once for all readers that want the same; equal states need none.
// RUN: opc-opt %s --opc-insert-boxing="mesh=2" --split-input-file | FileCheck %s

// CHECK-LABEL: @sum_and_gather
// CHECK: %[[M:.*]] = opc.user_op "matmul"
// CHECK: %[[ALL:.*]] = opc.boxing "all_reduce"(%[[M]]) dim 0 "sum" [P] -> [B] on 0 -> 0 channel 0
// CHECK-NOT: opc.boxing "all_reduce"
// CHECK-DAG: opc.user_op "relu"(x: %[[ALL]])
// CHECK-DAG: opc.user_op "sin"(x: %[[ALL]])
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @sum_and_gather() {
    %x = opc.input "x" {opc.sbp = [#opc.state<S(1)>]} : tensor<4x6xf32>
    %w = opc.variable "w" {opc.sbp = [#opc.state<S(0)>]} : tensor<6x8xf32>
    %m = opc.user_op "matmul"(a: %x, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} attributes {opc.sbp = [#opc.state<S(1)>, #opc.state<S(0)>, #opc.state<P>]} : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32> loc("m")
    %r = opc.user_op "relu"(x: %m) -> (y) attributes {opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("r")
    %s = opc.user_op "sin"(x: %m) -> (y) attributes {opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("s")
    opc.output "r"(%r) {opc.sbp = [#opc.state<B>]} : tensor<4x8xf32>
    opc.output "s"(%s) {opc.sbp = [#opc.state<B>]} : tensor<4x8xf32>
    return
  }
}

// -----

// Rows become columns by an exchange of all with all; the output's copy of the whole is another transition.
// CHECK-LABEL: @rows_to_columns
// CHECK-DAG: opc.boxing "all_to_all"({{.*}}) dim 0 {{.*}} [S(0)] -> [S(1)]
// CHECK-DAG: opc.boxing "all_gather"({{.*}}) dim 0 {{.*}} [S(1)] -> [B]
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @rows_to_columns() {
    %x = opc.input "x" {opc.sbp = [#opc.state<S(0)>]} : tensor<4x6xf32>
    %r = opc.user_op "relu"(x: %x) -> (y) attributes {opc.sbp = [#opc.state<S(1)>, #opc.state<S(1)>]} : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("r")
    opc.output "y"(%r) {opc.sbp = [#opc.state<B>]} : tensor<4x6xf32>
    return
  }
}

// -----

// CHECK-LABEL: @as_it_is
// CHECK-NOT: opc.boxing
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @as_it_is() {
    %x = opc.input "x" {opc.sbp = [#opc.state<B>]} : tensor<4x6xf32>
    %r = opc.user_op "relu"(x: %x) -> (y) attributes {opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("r")
    opc.output "y"(%r) {opc.sbp = [#opc.state<B>]} : tensor<4x6xf32>
    return
  }
}

// -----

// Reductions beside the computation are joined, but never maxima with sums: a step has one reduction.
// CHECK-LABEL: @sums_and_maxima
// CHECK-DAG: opc.boxing "all_reduce"(%{{[^,)]*}}) dim 0 "max" [P] -> [B] on 0 -> 0 channel 1
// CHECK-DAG: opc.boxing "all_reduce"(%{{[^,)]*}}, %{{[^,)]*}}) dim 0 "sum" [P, P] -> [B, B] on 0 -> 0 channel 1
module attributes {opc.placements = [#opc.placement<[2], [0, 1]>]} {
  func.func @sums_and_maxima() {
    %x = opc.input "x" {opc.sbp = [#opc.state<S(1)>]} : tensor<4x6xf32>
    %w = opc.variable "w" {opc.sbp = [#opc.state<B>]} : tensor<64x64xf32>
    %y = opc.input "y" {opc.sbp = [#opc.state<B>]} : tensor<64x64xf32>
    %t = opc.user_op "reduce_max"(input_tensor: %x) -> (output_tensor) {axis = array<i32: 1>, keepdims = true} attributes {opc.local, opc.sbp = [#opc.state<S(1)>, #opc.state<P>]} : (tensor<4x6xf32>) -> tensor<4x1xf32> loc("t")
    %b = opc.boxing "all_reduce"(%t) dim 0 "max" [P] -> [B] on 0 -> 0 channel 0 : (tensor<4x1xf32>) -> tensor<4x1xf32> loc("b")
    %s = opc.user_op "reduce_sum"(input_tensor: %x) -> (output_tensor) {axis = array<i32: 1>, keepdims = true} attributes {opc.sbp = [#opc.state<S(1)>, #opc.state<P>]} : (tensor<4x6xf32>) -> tensor<4x1xf32> loc("s")
    %u = opc.user_op "reduce_sum"(input_tensor: %x) -> (output_tensor) {axis = array<i32: 1>, keepdims = false} attributes {opc.sbp = [#opc.state<S(1)>, #opc.state<P>]} : (tensor<4x6xf32>) -> tensor<4xf32> loc("u")
    %m = opc.user_op "matmul"(a: %y, b: %w) -> (out) {alpha = 1.0 : f64, transpose_a = false, transpose_b = false} attributes {opc.sbp = [#opc.state<B>, #opc.state<B>, #opc.state<B>]} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc("m")
    %r = opc.user_op "relu"(x: %m) -> (y) attributes {opc.sbp = [#opc.state<B>, #opc.state<B>]} : (tensor<64x64xf32>) -> tensor<64x64xf32> loc("r")
    opc.output "t"(%b) {opc.sbp = [#opc.state<B>]} : tensor<4x1xf32>
    opc.output "s"(%s) {opc.sbp = [#opc.state<B>]} : tensor<4x1xf32>
    opc.output "u"(%u) {opc.sbp = [#opc.state<B>]} : tensor<4xf32>
    opc.output "r"(%r) {opc.sbp = [#opc.state<B>]} : tensor<64x64xf32>
    return
  }
}
