// Attributes with a syntax of their own are read back, alone and as what passes attach.
// RUN: opc-opt %s | opc-opt | FileCheck %s

// CHECK: module attributes {opc.job = #opc.job<trainConf = "model_update_conf { }", rest = "job_conf { job_name: \22j\22 }">, opc.placements = [#opc.placement<[2, 2], [0, 1, 2, 3]>, #opc.placement<[2], [0, 1]>]}
module attributes {
  opc.job = #opc.job<trainConf = "model_update_conf { }", rest = "job_conf { job_name: \"j\" }">,
  opc.placements = [#opc.placement<[2, 2], [0, 1, 2, 3]>, #opc.placement<[2], [0, 1]>]
} {
func.func @graph() {
  // CHECK: opc.variable "w" init {{(#opc.initializer)?}}<"random_normal_conf", {mean = 0.000000e+00 : f32, std = 5.000000e-01 : f32}> seed 7 {opc.hints = [#opc.state<S(0), B>]} : tensor<4x6xf32>
  %w = opc.variable "w" init #opc.initializer<"random_normal_conf", {mean = 0.0 : f32, std = 0.5 : f32}> seed 7 {opc.hints = [#opc.state<S(0), B>]} : tensor<4x6xf32>
  // CHECK: opc.variable "n" init {{(#opc.initializer)?}}<"constant_int_conf", {value = 0 : i64}> {trainable = false} : tensor<1xi64>
  %n = opc.variable "n" init #opc.initializer<"constant_int_conf", {value = 0}> {trainable = false} : tensor<1xi64>
  // CHECK: opc.user_op "relu"{{.*}} -> (y) role backward attributes {opc.copies = {{\[\[}}#opc.state<B, B>, #opc.state<P, S(1)>]], opc.lag = 1 : i64, opc.sbp = [#opc.state<S(0), B>, #opc.state<S(0), B>], opc.stride = 2 : i64, opc.transfers = {{\[\[}}0 : i32, 1 : i32, #opc.state<B>]]}
  %0 = opc.user_op "relu"(x: %w) -> (y) role backward attributes {opc.sbp = [#opc.state<S(0), B>, #opc.state<S(0), B>], opc.copies = [[#opc.state<B, B>, #opc.state<P, S(1)>]], opc.transfers = [[0 : i32, 1 : i32, #opc.state<B>]], opc.lag = 1 : i64, opc.stride = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: opc.user_op "relu"{{.*}} role optimizer on <"cpu", 1> {{.*}}opc.sharding = [#opc.sharding<0, [S(0), B], [8, 6]>, #opc.sharding<0, [S(0), B], [8, 6]>]
  %1 = opc.user_op "relu"(x: %0) -> (y) role optimizer on <"cpu", 1> attributes {opc.placement = 1 : i32, opc.sharding = [#opc.sharding<0, [S(0), B], [8, 6]>, #opc.sharding<0, [S(0), B], [8, 6]>]} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: opc.user_op "relu"{{.*}} role backward attributes {opc.gradient_of = "fc\221"}
  %2 = opc.user_op "relu"(x: %1) -> (y) role backward attributes {opc.gradient_of = "fc\221"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  opc.output "y"(%1) {opc.hints = [#opc.state<B, B>]} : tensor<4x6xf32>
  return
}
}
