// Texts are read in a pipeline alone; tests/onnx/control_devices.py has what is refused there.
// RUN: opc-opt %s --opc-write-out-control --split-input-file --verify-diagnostics

module {
func.func @graph() {
  %n = opc.input "n" : tensor<i64>
  %c = opc.input "c" : tensor<i1>
  %x = opc.input "x" : tensor<4xf32>
  // expected-note @+2 {{graphs in ops run on one CPU with fixed shapes}}
  // expected-error @+1 {{nobody reads its graphs here}}
  %y = opc.user_op "loop"(turns: %n, cond: %c, in: %x) -> (out) {graph = "op { name: 't' input_conf { out: 'out' blob_conf { shape { } data_type: kInt64 } } } op { name: 'h' input_conf { out: 'out' blob_conf { shape { dim: 4 } data_type: kFloat } } } op { name: 'g' user_conf { op_type_name: 'constant' output { key: 'out' value { s: 'g/out_0' } } attr { key: 'dtype' value { at_data_type: kBool } } attr { key: 'shape' value { at_shape { } } } attr { key: 'integer_value' value { at_int64: 1 } } attr { key: 'is_floating_value' value { at_bool: false } } } } op { name: 'o' output_conf { in: 'g/out_0' out: 'out' } } op { name: 'p' output_conf { in: 'h/out' out: 'out' } }", most = 0 : i64, partial = false, reverse = false, row_dtypes = #opc.list<12, []>, row_shapes = #opc.list<13, []>, sequences = 0 : i64, states = 1 : i64} : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  opc.output "y"(%y) : tensor<4xf32>
  return
}
}
