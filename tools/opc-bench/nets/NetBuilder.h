// Planning problems of training graphs, built from einsum-like rules; with a tape for the backward pass. No MLIR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"
#include "SignaturePlanner.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace opc::bench {

/// The machine that costs are counted for.
struct Cluster {
  std::vector<int64_t> mesh;
  MeshLinks links;                 // one for each mesh dimension
  double flops = 120e12;           // operations a second of a device
  double memoryBandwidth = 1.5e12; // bytes a second
  double gradientDiscount = 1;     // of the boxing of variables' gradients
};
/// 8 devices with fast links; 4 x 8 with fast links inside and slow ones between. Any other mesh: slow first, fast
/// last.
Cluster clusterOf(std::vector<int64_t> mesh);

/// An op in terms of factors, a letter for each axis: "bse,ef->bsf"; '.' is an axis that is not cut, '_' a scalar.
struct Rule {
  std::string terms;
  std::string sums;                     // factors that outputs may lack: those outputs become P
  std::string composites;               // factors that outputs may lack: the op itself communicates, those become B
  std::vector<std::vector<int>> linear; // groups of inputs that may be P together
  double flops = 0;
  double exchanged = 0; // bytes that a composite factor all-reduces
};

/// A tensor of the net under construction.
using TensorId = uint32_t;

class NetBuilder {
public:
  explicit NetBuilder(Cluster cluster) : cluster_(std::move(cluster)) {}

  /// A tensor that comes from outside (int64 when `integer`), or is a variable with an update at the end.
  TensorId input(Shape shape, bool integer = false);
  TensorId variable(Shape shape);
  std::vector<TensorId> op(const Rule &rule, const std::vector<TensorId> &inputs, const std::vector<Shape> &outputs,
                           bool pinFirst = false);
  const Shape &shape(TensorId t) const { return shapes_[t]; }

  /// A differentiable op: `backward` gets the gradients of its outputs (kNoTensor where there is none) and calls
  /// addGradient for its inputs. Called in reverse order by finish().
  static constexpr TensorId kNoTensor = UINT32_MAX;
  void onBackward(std::vector<TensorId> outputs, std::function<void(const std::vector<TensorId> &)> backward);
  void addGradient(TensorId of, TensorId gradient);
  /// Backward pass from `loss`, then an SGD update of every variable.
  planner::Problem finish(TensorId loss);

private:
  struct Taped {
    std::vector<TensorId> outputs;
    std::function<void(const std::vector<TensorId> &)> backward;
  };
  const std::vector<NdSbp> &statesOf(const Shape &shape, DataType type);
  uint32_t tensorKind(const Shape &shape, DataType type);
  uint32_t opKind(const Rule &rule, const std::vector<Shape> &in, const std::vector<DataType> &inTypes,
                  const std::vector<Shape> &out, bool pinFirst);
  TensorId newTensor(const Shape &shape, DataType type, double held);
  TensorId source(const Shape &shape, DataType type, double held);

  Cluster cluster_;
  planner::Problem problem_;
  std::vector<Shape> shapes_;
  std::vector<DataType> types_;
  std::map<std::string, uint32_t> tensorKinds_, opKinds_;
  std::map<std::string, std::vector<NdSbp>> states_;
  std::vector<Taped> tape_;
  std::map<TensorId, TensorId> gradients_;
  std::vector<TensorId> variables_;
};

} // namespace opc::bench
