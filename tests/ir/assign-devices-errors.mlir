// A variable is written on one side alone.
// RUN: opc-opt %s --opc-assign-devices --split-input-file --verify-diagnostics

func.func @graph() {
  // expected-note @+1 {{operand: ref: v/out}}
  %v = opc.variable "v" : tensor<4xf32>
  // expected-note @+1 {{operand: value: x/out}}
  %x = opc.input "x" : tensor<4xf32>
  opc.user_op "assign"(ref: %v, value: %x) -> () : (tensor<4xf32>, tensor<4xf32>) -> () loc("first")
  // expected-error @+2 {{OPC0415: assign: it writes its input v/out on the cpu, which op first writes on the device}}
  // expected-note @+1 {{help: place all ops that write it on the same side: --place GLOB=cpu}}
  opc.user_op "assign"(ref: %v, value: %x) -> () on <"cpu", 0> : (tensor<4xf32>, tensor<4xf32>) -> ()
  opc.output "x"(%x) : tensor<4xf32>
  return
}
