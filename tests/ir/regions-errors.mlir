// What a region may not hold, and bounds that bound nothing.
// RUN: not opc-opt --split-input-file %s 2>&1 | FileCheck %s

// CHECK: has a region whose arguments are not of the types of its operands
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %y = opc.fused "f"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<5xf32>):
    opc.yield %a : tensor<5xf32>
  }
  return
}

// -----
// CHECK: does not yield values of the types of its results
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %y = opc.fused "f"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    opc.yield
  }
  return
}

// -----
// CHECK: stands in an opc.fused, which holds opc.constant, and opc.user_op that only make results
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %y = opc.fused "f"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %v = opc.variable "v" : tensor<4xf32>
    opc.yield %v : tensor<4xf32>
  }
  return
}

// -----
// CHECK: using value defined outside the region
func.func @graph() {
  %x = opc.input "x" : tensor<4xf32>
  %y = opc.fused "f"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    opc.yield %x : tensor<4xf32>
  }
  return
}

// -----
// CHECK: 'opc.yield' op expects parent op 'opc.fused'
func.func @graph() { opc.yield }

// -----
// CHECK: the bound has 1 dimensions, the tensor 2
func.func @graph() { %x = opc.input "x" : tensor<?x4xf32, #opc.bound<8>> return }

// -----
// CHECK: a dimension of size 4 has the bound 5; known sizes are their own
func.func @graph() { %x = opc.input "x" : tensor<?x4xf32, #opc.bound<8, 5>> return }

// -----
// CHECK: the bound -1 is negative
func.func @graph() { %x = opc.input "x" : tensor<?xf32, #opc.bound<-1>> return }
