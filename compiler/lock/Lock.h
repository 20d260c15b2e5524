// What a lock file holds of a graph: its facts, what its outputs were, and what was said of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace opc {

/// The version of lock files that this build writes, and the largest that it reads.
constexpr int kLockVersion = 1;

/// The parts of a lock that are compared and updated by themselves, in the order of the file.
enum class LockSection {
  kInterface,
  kOps,
  kTensors,
  kConstants,
  kSbp,
  kBoxing,
  kGrad,
  kTasks,
  kCost,
  kNumerics,
  kDiagnostics,
};
const std::vector<LockSection> &lockSections();
const char *lockSectionName(LockSection section);

/// What a graph was compiled for. Two locks of different targets are not compared.
struct LockTarget {
  std::string device = "cpu";                              // whose kernels
  std::string mesh;                                        // "2x4"; empty for one device
  std::map<std::string, std::vector<int64_t>> shapes = {}; // of inputs, in place of the graph's
  bool operator==(const LockTarget &o) const { return device == o.device && mesh == o.mesh && shapes == o.shapes; }
  bool operator!=(const LockTarget &o) const { return !(*this == o); }
};

/// An output of a run on generated inputs. Statistics are of the finite elements.
struct OutputValues {
  std::string name;
  bool isInside = false; // a tensor of that name, and no output
  DataType dtype = kInvalidDataType;
  Shape shape;
  double min = 0, max = 0, mean = 0, std = 0, l2 = 0;
  int64_t nan = 0, inf = 0;
  std::vector<double> samples; // of 64 elements at most, evenly spread
  std::string digest;          // SHA-256 of the elements, of types that are compared exactly
  std::string bits;            // the same of any type; no lock has it
};
struct NumericFacts {
  uint64_t seed = 0;
  double low = -1, high = 1;         // of floating inputs; integers are 0 or 1
  std::string inputsFile;            // SHA-256 of the file of inputs beside the graph; empty when all are generated
  std::string valuesFile;            // SHA-256 of the file with the whole outputs; empty without one
  std::vector<OutputValues> outputs; // and after them tensors inside
};

/// A warning of the compiler.
struct LockedWarning {
  std::string code, subject;
  bool operator<(const LockedWarning &o) const { return std::tie(code, subject) < std::tie(o.code, o.subject); }
  bool operator==(const LockedWarning &o) const { return code == o.code && subject == o.subject; }
};

struct Lock {
  int version = kLockVersion;
  std::string graph; // the file's name, without its folder
  LockTarget target;
  std::set<LockSection> sections; // that the file has
  std::set<LockSection> damaged;  // whose text is not what the file says that it is
  /// Of `ops` and `grad` those whose ops are told in full: what they must run after, and digests of the graphs in them
  /// (if, loop) without places. Earlier builds wrote neither.
  std::set<LockSection> detailed;
  /// Ops of the forward pass in `ops`, of the others in `grad`; of a tensor what the section tensors says.
  GraphFacts facts;
  std::vector<GraphOp> constants; // of an ONNX model, as factsWithConstants() has them; earlier builds wrote none
  /// Of inputs that `target` gives shapes: the type that the graph itself says, "f32[?,64]".
  std::map<std::string, std::string> declared;
  std::string schedule; // SHA-256 of the kernels and streams in the order of execution
  std::string ir;       // SHA-256 of what was compiled: MLIR of the last phase, without names and lines of ops
  NumericFacts numerics;
  std::vector<LockedWarning> warnings;
  std::map<std::string, std::string> tensorTypes; // what the section tensors says, by tensor
  std::map<LockSection, std::string> texts;       // of sections that were read, or taken from another lock
};

} // namespace opc
