// Where ops with graphs cannot run both branches are computed, and results keep their names; opc-opt reads texts in a pipeline alone.
// RUN: opc-opt %s --opc-pipeline="to=shape mesh=2" --mlir-print-debuginfo | FileCheck %s
// RUN: opc-opt %s --opc-pipeline="to=shape" | FileCheck %s --check-prefix=ONE
// RUN: not opc-opt %s --opc-write-out-control 2>&1 | FileCheck %s --check-prefix=ALONE

// CHECK: %[[X:.*]] = opc.input "x"
// CHECK: %[[YES:.*]] = opc.user_op "relu"(x: %[[X]])
// CHECK: %[[Y:.*]] = opc.user_op "where"(condition: {{.*}}, x: %[[YES]], y: %[[X]]) {{.*}} loc(#[[WHERE:.*]])
// CHECK: opc.output "y"(%[[Y]])
// CHECK: tensors = ["choice/out_0"]
// CHECK: #[[WHERE]] = loc("choice"
// ONE: opc.user_op "if"
// ALONE: OPC0416: op choice (if): nobody reads its graphs here
func.func @graph() {
  %c = opc.input "c" : tensor<i1> loc("c")
  %x = opc.input "x" : tensor<4xf32> loc("x")
  %y = opc.user_op "if"(cond: %c, in: %x) -> (out) {dtypes = #opc.list<12, [#opc.dtype<2>]>, else_graph = "op { name: 'h' input_conf { out: 'out' blob_conf { shape { dim: 4 } data_type: kFloat } } } op { name: 'o' output_conf { in: 'h/out' out: 'out' } }", shapes = #opc.list<13, [#opc.shape<[4]>]>, then_graph = "op { name: 'h' input_conf { out: 'out' blob_conf { shape { dim: 4 } data_type: kFloat } } } op { name: 'r' user_conf { op_type_name: 'relu' input { key: 'x' value { s: 'h/out' } } output { key: 'y' value { s: 'r/y_0' } } } } op { name: 'o' output_conf { in: 'r/y_0' out: 'out' } }"} : (tensor<i1>, tensor<4xf32>) -> !opc.unresolved loc("choice")
  opc.output "y"(%y) : !opc.unresolved loc("y")
  return
}
