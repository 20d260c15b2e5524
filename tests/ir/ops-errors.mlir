// What the verifier refuses, with the registry's words.
// RUN: opc-opt %s --split-input-file --verify-diagnostics

func.func @unknown() {
  %x = opc.input "x" : tensor<2xf32>
  // expected-error @+2 {{OPC0201: unknown op type 'reluu'}}
  // expected-note @+1 {{help: did you mean 'relu'?}}
  %y = opc.user_op "reluu"(x: %x) -> (y) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @missing_input() {
  %x = opc.input "x" : tensor<2x2xf32>
  // expected-error @+2 {{OPC0202: matmul: input 'b' is missing}}
  // expected-note @+1 {{help: add input}}
  %y = opc.user_op "matmul"(a: %x) -> (out) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @unknown_attribute() {
  %x = opc.input "x" : tensor<2x2xf32>
  // expected-error @+2 {{OPC0205: matmul: no attribute 'transposeb'}}
  // expected-note @+1 {{help: did you mean 'transpose_b'?}}
  %y = opc.user_op "matmul"(a: %x, b: %x) -> (out) {transposeb = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @wrong_type() {
  %x = opc.input "x" : tensor<2x2xf32>
  // expected-error @+1 {{OPC0203: relu: result 0 is declared f32[2,3], the shape rule gives f32[2,2]}}
  %y = opc.user_op "relu"(x: %x) -> (y) : (tensor<2x2xf32>) -> tensor<2x3xf32>
  return
}
