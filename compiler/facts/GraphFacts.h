// The facts of a graph and of what was compiled from it, as plain data: what commands and reports read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "FusionFacts.h"
#include "Placement.h"

#include "opc/Attr.h"
#include "opc/Tensor.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc {

/// One of the tensors of an op's argument.
struct GraphSlot {
  std::string argument;
  int32_t index = 0;
  /// What reports and locks call it: "in_0".
  std::string text() const { return argument + "_" + std::to_string(index); }
};

/// A tensor of the graph under the name that it is shown by.
struct GraphTensor {
  std::string name; // of the input, output or variable op; of an op's outputs the text of their slot
  DataType dtype = kInvalidDataType;
  Shape shape;
  std::string tensor; // the value's name, "x/out"
  bool trainable = false;
  SourceRange range;       // of an input, output or variable
  std::string initializer; // of a variable: "constant_conf {value = 1.0 : f32} seed 7"; empty without one
  std::string digest;      // of a variable whose values came with the graph: their SHA-256; it has no initializer
  GraphSlot slot = {};     // of an op's outputs
};

/// What an op reads.
struct GraphOperand {
  GraphSlot slot;
  std::string tensor; // its name
};

struct GraphOp {
  std::string name, type;
  std::vector<GraphOperand> inputs;
  std::vector<GraphTensor> outputs;
  std::map<std::string, AttrValue> attrs;
  SourceRange range;
  std::string loc;                // OperatorConf.loc
  std::string role = "forward";   // "backward", "optimizer", "accumulation"
  std::string gradientOf;         // of the backward pass: the op whose gradient it computes, where that is known
  std::vector<std::string> after; // ops that must run before it, beside those that it reads (ctrl_in_op_name)
  std::string device;             // "cpu:0"; empty where the graph leaves it open
  double flops = 0, bytes = 0;    // of a step of the whole op, where costs were asked for
  bool isValue = false;           // a constant of the graph: nothing runs for it
  std::string digest;             // of a constant of several values: of these
};

/// A gradient that was asked for: the tensor, called as its variable or input is, and what holds its gradient.
struct GraphGradient : GraphTensor {
  std::string gradient; // the tensor; empty when the loss does not depend on this one
  std::string output;   // the output op, "fc1.w.grad"; empty without gradient
};

/// What has been decided about the states of tensors on a mesh, and what it costs.
struct MeshFacts {
  struct Op {
    std::string name, type, signature; // "(S(0), B) -> (S(0))"
    uint32_t placement = 0;
  };
  struct Transition {
    std::vector<std::string> tensors;
    std::string kind, from, to; // of the first tensor
    int32_t meshDim = -1;
    int64_t bytes = 0; // sent by the rank that sends most
    double seconds = 0;
    uint32_t channel = 0;
    uint32_t source = 0, target = 0;
  };
  /// What an op could have had in place of its signature, all else as it is.
  struct Choice {
    std::string signature, outputs; // "(S(0), B) -> (S(0))", "S(0)"
    double seconds = 0;             // of the op itself
    double transitionSeconds = 0;   // of what it reads and of what others read of it
    bool chosen = false;
  };
  struct OpChoices {
    std::string op;
    std::vector<std::string> tensors; // that it makes
    std::vector<Choice> choices;      // cheapest first, at most six and the chosen one
    size_t possible = 0;              // how many there were
  };
  std::vector<Placement> placements;
  std::vector<Op> ops;
  std::vector<OpChoices> choices; // of ops that make tensors, after sbp
  std::vector<Transition> transitions;
  double cost = 0, lowerBound = 0, gap = 0; // seconds of a step
  double computeSeconds = 0;
  std::string method;
  double planningSeconds = 0; // of the planner's core
  uint64_t variables = 0, distinct = 0;
  int64_t stages = 1, microBatches = 1;
};

/// GraphTask::library of operators in Python, whatever manifest or folder has their definition.
inline constexpr const char *kPythonLibrary = "python";

/// An op that runs, in the order of execution: a task of the plan, or one of several that a region computes in one.
struct GraphTask {
  std::string op, kernel; // "fc1", "cpu/matmul/f32"
  uint32_t stream = 0;
  // Of the kernel, as libraryName() says; empty: it is built in; none where nobody knows.
  std::optional<std::string> library = std::nullopt;
  int32_t priority = 0; // with which the kernel was registered
  int64_t region = -1;  // which one; -1: a task of its own
};

struct MemoryFacts {
  // With what graphs in ops have beside the arena, which is theirs all the time; of several threads' graphs one.
  uint64_t arenaBytes = 0, persistentBytes = 0, activationBytes = 0;
  uint64_t liveLowerBound = 0; // the largest sum of live activation bytes at any task
  struct Slot {
    std::string name;
    uint64_t offset = 0, bytes = 0;
    uint32_t firstTask = 0, lastTask = 0;
    std::string kind; // "activation", "input", "variable", "constant", "workspace", "graph"
  };
  std::vector<Slot> slots; // in plan order
};

/// What the ranks of one shape of pieces need; on one device there is one part.
struct PartFacts {
  std::vector<uint32_t> ranks;
  uint64_t arenaBytes = 0, persistentBytes = 0;
  size_t tasks = 0;
  std::map<std::string, Shape> pieces = {}; // on a mesh: what they have of the tensors that ops make
};

/// Sums over the graph.
struct CostFacts {
  double flops = 0, bytes = 0;                 // of all ops, where costs were asked for
  int64_t commBytes = 0;                       // of the transitions between states
  uint64_t peakBytes = 0, persistentBytes = 0; // of the ranks that need most
  uint64_t tasks = 0;                          // of all parts
};

/// A pass that a phase ran: over the graph, or over that of some ranks.
struct PassFacts {
  std::string name;              // "opc-simplify"
  double start = 0, seconds = 0; // like those of phases
};

/// A phase that has run.
struct PhaseFacts {
  std::string name, doc;
  double start = 0; // seconds after the pipeline was made
  double seconds = 0;
  size_t ops = 0;                     // after the phase, with constants, and those in regions one by one
  std::vector<PassFacts> passes = {}; // in the order in which they began
};

/// What is known after the phase that was run; of a later one nothing.
struct GraphFacts {
  std::string format; // "Job (text)", "DLNetConf (binary)", "plan of ..."
  std::vector<GraphTensor> inputs, outputs, variables;
  std::vector<GraphOp> ops;
  bool isDifferentiated = false;        // it has ops of a backward pass
  std::vector<GraphGradient> gradients; // after grad
  MeshFacts mesh;                       // after boxing, for several devices
  int64_t regions = 0;                  // in `tasks`
  std::vector<GraphTask> tasks;         // after memory; of the ranks that need most of it, like `memory`
  MemoryFacts memory;
  std::vector<PartFacts> parts;    // after memory
  std::vector<FusionFacts> fusion; // after fuse; by part
  std::vector<FusionFacts::Parts> batchParts;
  /// By tensor, where it is not the whole one: "f32[16,784] on 0-3". Of a lock; of a graph namePieces() makes it.
  std::map<std::string, std::string> pieces = {};
  CostFacts costs;
  std::vector<PhaseFacts> phases;
};

} // namespace opc
