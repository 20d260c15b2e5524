// What is wrong with an attribute is said where it stands.
// RUN: not opc-opt --split-input-file %s 2>&1 | FileCheck %s

// CHECK: a state is S(axis), B or P, not X
func.func @graph() { %x = opc.input "x" {opc.sbp = [#opc.state<X>]} : tensor<2xf32> return }

// -----
// CHECK: S(99) is no state: axes are 0 to
func.func @graph() { %x = opc.input "x" {opc.sbp = [#opc.state<S(99)>]} : tensor<2xf32> return }

// -----
// CHECK: axis 2 is split, and the tensor has 2 axes
func.func @graph() { %x = opc.input "x" {opc.sharding = [#opc.sharding<0, [S(2)], [2, 3]>]} : tensor<2x3xf32> return }

// -----
// CHECK: the whole tensor has the dimension -4
func.func @graph() { %x = opc.input "x" {opc.sharding = [#opc.sharding<0, [B], [-4]>]} : tensor<2xf32> return }

// -----
// CHECK: the attribute "opc.sharding" has the rank of the tensor, 1
func.func @graph() { %x = opc.input "x" {opc.sharding = [#opc.sharding<0, [B], [4, 2]>]} : tensor<2xf32> return }

// -----
// CHECK: the mesh has 4 devices and lists 2 ranks
module attributes {opc.placements = [#opc.placement<[2, 2], [0, 1]>]} {}

// -----
// CHECK: rank 1 is listed twice
module attributes {opc.placements = [#opc.placement<[2], [1, 1]>]} {}

// -----
// CHECK: the attribute "opc.placements" is a list of placements
module attributes {opc.placements = [array<i64: 2>]} {}

// -----
// CHECK: the attribute "opc.placement" is the index of one of the module's 1 placements
module attributes {opc.placements = [#opc.placement<[1], [0]>]} {
func.func @graph() { %x = opc.input "x" {opc.placement = 1 : i32} : tensor<2xf32> return }
}

// -----
// CHECK: the attribute "opc.sbp" has 1 entries for 2 operands and results
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) attributes {opc.sbp = [#opc.state<B>]} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
// CHECK: the attribute "opc.lag" is at least 0
func.func @graph() { %x = opc.input "x" {opc.lag = -1 : i64} : tensor<2xf32> return }

// -----
// CHECK: the attribute "opc.stride" stands at an opc.user_op
func.func @graph() { %x = opc.input "x" {opc.stride = 2 : i64} : tensor<2xf32> return }

// -----
// CHECK: no pass knows the attribute "opc.stade"
func.func @graph() { %x = opc.input "x" {opc.stade = 1 : i64} : tensor<2xf32> return }

// -----
// CHECK: there is no initializer "constant"
func.func @graph() { %w = opc.variable "w" init #opc.initializer<"constant", {}> : tensor<2xf32> return }

// -----
// CHECK: the initializer "constant_conf" has no field "valu" = 1.000000e+00 : f32
func.func @graph() { %w = opc.variable "w" init #opc.initializer<"constant_conf", {valu = 1.0 : f32}> : tensor<2xf32> return }

// -----
// CHECK: a role is forward, backward, optimizer or accumulation, not backwards
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) role backwards : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
// CHECK: a device has a kind
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) on <"", 0> : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
// CHECK: the attribute "opc.ranks" is a rising list of ranks at a module
module attributes {opc.ranks = array<i32: 1, 0>} {}

// -----
// CHECK: the attribute "opc.gradient_of" stands at an opc.user_op of the role backward
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) attributes {opc.gradient_of = "f"} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
// CHECK: the attribute "opc.gradient_of" is the name of an op; it is ""
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) role backward attributes {opc.gradient_of = ""} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----
// CHECK: the attribute "opc.gradient_of" is the name of an op; it is 3 : i64
func.func @graph() {
  %x = opc.input "x" : tensor<2xf32>
  %0 = opc.user_op "relu"(x: %x) -> (y) role backward attributes {opc.gradient_of = 3} : (tensor<2xf32>) -> tensor<2xf32>
  return
}
