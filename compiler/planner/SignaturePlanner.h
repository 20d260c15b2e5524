// The planner's core: a signature for every op, a state for every tensor, at the least cost; with a proof. No MLIR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opc::planner {

/// Tensors of one kind have the same states, sizes and prices. States are indices; what they stand for is the caller's.
struct TensorKind {
  uint32_t states = 0;
  /// Seconds of boxing from state a to state b, at a * states + b. 0 on the diagonal, infinity where it is impossible.
  std::vector<double> boxing;
  /// Bytes that a device holds in each state.
  std::vector<uint64_t> bytes;
};

/// Ops of one kind have the same signatures at the same prices.
struct OpKind {
  struct Signature {
    std::vector<uint32_t> inputs, outputs; // states
    double seconds = 0;                    // the work itself, on the slowest device
  };
  std::vector<Signature> signatures;
  /// Inputs that take the tensor as its producer made it: no boxing (variables that the op updates). By input; empty:
  /// none.
  std::vector<bool> pinned;
};

struct Op {
  uint32_t kind = 0;
  std::vector<uint32_t> inputs,
      outputs; // tensors; a tensor is the output of exactly one op, which comes before its readers
};

struct Tensor {
  uint32_t kind = 0;
  /// How often its bytes, in the produced state and in every copy, count against the memory limit: 1 for variables and
  /// for what the backward pass keeps, 0 for what is gone soon.
  double held = 0;
  /// Multiplies its boxing seconds: below 1 where communication hides behind computation (gradients of variables).
  double discount = 1;
};

struct Problem {
  std::vector<TensorKind> tensorKinds;
  std::vector<OpKind> opKinds;
  std::vector<Tensor> tensors;
  std::vector<Op> ops; // in topological order
};

struct Options {
  /// Bytes that the held tensors may take on a device; 0: no limit.
  uint64_t memoryLimit = 0;
  /// How many states beside the produced one a tensor may be kept in for its readers; 1 or 2.
  int copies = 1;
  /// Largest table of an elimination, in entries; above it dual bounds take over.
  uint64_t tableLimit = uint64_t{1} << 22;
  /// Sweeps of the dual bound.
  int sweeps = 300;
};

struct Solution {
  bool feasible = false;
  /// Infeasible: the op (index) that has no signature, or whose signatures no state of its tensors fits; or -1 when
  /// memory is what fails, with the least bytes that were found in `bytes`.
  int64_t blamed = -1;
  std::vector<uint32_t> signature;           // by op
  std::vector<std::vector<uint32_t>> copies; // by tensor: states beside the produced one that are made once for readers
  /// Seconds: of the solution, a bound that no solution is below, and their difference (0: proven optimal up to 1e-9 of
  /// the cost). With a memory limit the bound is the Lagrangian one.
  double cost = 0, lowerBound = 0, gap = 0;
  uint64_t bytes = 0; // of held tensors on a device
  /// How it was proven: "elimination", "elimination after dual bounds"; "dual bounds": not proven, the gap is above 0.
  /// "bad problem: ..." when the problem contradicts itself (infeasible; blamed: the op where it shows, or -1).
  std::string method;
  uint64_t variables = 0, eliminated = 0, distinct = 0, sweeps = 0; // how much work it was
};

/// The cost is the sum over ops of their signature's seconds, over tensors of the boxing of each copy from the produced
/// state, and over inputs of the boxing from the cheapest of the produced state and the copies to the state that the
/// reader's signature wants; boxing seconds times the tensor's discount. Ties: the solution whose list of signature
/// indices, ops in order, is smaller in the first op where they differ, as far as elimination sees both; always the
/// same solution for the same problem.
Solution solve(const Problem &problem, const Options &options = {});

/// The cost of a given assignment, by the definition above; infinity when it is not possible. For tests and for other
/// assignments than the planner's. Copies are chosen as cheaply as `maxCopies` allows.
double costOf(const Problem &problem, const std::vector<uint32_t> &signature, int maxCopies = 1);

} // namespace opc::planner
