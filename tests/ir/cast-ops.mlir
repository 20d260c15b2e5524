// Ops that compute in another type: casts in front of them and, where their results have another type now, behind.
// RUN: opc-opt %s --opc-cast-ops="op=h=f16" | FileCheck %s --check-prefix=NAME
// RUN: opc-opt %s --opc-cast-ops="op=exp=f64" | FileCheck %s --check-prefix=TYPE
// RUN: opc-opt %s --opc-cast-ops="op=h=f32 op=exp=f16" | FileCheck %s --check-prefix=FIRST

// NAME: %[[X:.*]] = opc.input "x"
// NAME: %[[C:.*]] = opc.user_op "cast"(in: %[[X]]) -> (out) {dtype = #opc.dtype<9>
// NAME-SAME: tensor<4xf16>
// NAME: %[[H:.*]] = opc.user_op "exp"(x: %[[C]])
// NAME-SAME: tensor<4xf16>
// NAME: %[[B:.*]] = opc.user_op "cast"(in: %[[H]]) -> (out) {dtype = #opc.dtype<2>
// NAME: "exp"(x: %[[B]])
// NAME-SAME: tensor<4xf32>

// Between two of them nothing is rounded to the type that the graph has there.
// TYPE-COUNT-2: "cast"
// TYPE-NOT: "cast"
// FIRST-COUNT-2: "cast"
// FIRST-NOT: "cast"
module {
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %h = opc.user_op "exp"(x: %x) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("h")
  %r = opc.user_op "exp"(x: %h) -> (y) : (tensor<4xf32>) -> tensor<4xf32> loc("r")
  opc.output "y"(%r) : tensor<4xf32>
  return
}
}
