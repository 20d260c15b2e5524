// Random valid graphs made from the registry: what the operators' own cases say, wired together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"
#include "Registry.h"
#include "graph.pb.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace opc::fuzz {

struct RandomGraphOptions {
  /// Floating-point ops that have a gradient, and nothing else.
  bool differentiable = false;
  /// Convolutions, normalizations, poolings, sums and activations on images: what the phase fuse rewrites.
  bool images = false;
  int minOps = 3, maxOps = 40;
};

/// A graph without output ops, its inputs with the range their values come from, and the tensors it computes.
struct RandomGraph {
  struct Tensor {
    std::string name; // "op3/out_0"
    user_op::TensorDesc desc;
    int readers = 0;
    bool discontinuous = false; // a step function lies on the way from the inputs: a last bit may become a one
    DataType coarsest = kInvalidDataType; // the floating type of the fewest bits on the way from the inputs
  };
  struct Input {
    std::string op;
    user_op::TensorDesc desc;
    double lo = -1, hi = 1;
  };
  graph::DLNetConf net;
  std::vector<Input> inputs;
  std::vector<Tensor> tensors; // of ops, not of inputs
  std::vector<size_t> outputs; // into tensors: every tensor without a reader, and some with

  /// The graph's text with outputs "o0", "o1", ... for the chosen tensors, or for all of them ("o<index>" each).
  std::string text(bool everything) const;
};

/// The same seed, options and registry give the same graph.
RandomGraph makeRandomGraph(const Registry &registry, uint64_t seed, const RandomGraphOptions &options);

} // namespace opc::fuzz
