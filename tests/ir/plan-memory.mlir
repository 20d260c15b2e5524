// Buffers: views share, elementwise ops work in place on their operand's last reading, inputs are never overwritten.
// RUN: opc-opt %s --opc-plan-memory | FileCheck %s

func.func @graph() {
  // CHECK: opc.input "x" {opc.offsets = array<i64: 0>}
  %x = opc.input "x" : tensor<4x8xf32>
  // The first relu may not overwrite the input.
  // CHECK: "relu"{{.*}}opc.offsets = array<i64: 128>
  %a = opc.user_op "relu"(x: %x) -> (y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: "reshape"{{.*}}opc.offsets = array<i64: 128>
  %r = opc.user_op "reshape"(in: %a) -> (out) {shape = #opc.shape<[32]>} : (tensor<4x8xf32>) -> tensor<32xf32>
  // CHECK: "exp"{{.*}}opc.offsets = array<i64: 128>
  %e = opc.user_op "exp"(x: %r) -> (y) : (tensor<32xf32>) -> tensor<32xf32>
  // Read again later: not in place.
  // CHECK: "tanh"{{.*}}opc.offsets = array<i64: 256>
  %t = opc.user_op "tanh"(x: %e) -> (y) : (tensor<32xf32>) -> tensor<32xf32>
  // CHECK: "broadcast_add"{{.*}}opc.offsets = array<i64: {{128|256}}>
  %s = opc.user_op "broadcast_add"(x: %t, y: %e) -> (z) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  opc.output "y"(%s) : tensor<32xf32>
  return
}
