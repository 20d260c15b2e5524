// One op of a graph against its definition: completed, checked, inferred; and the contexts its rules and kernels see.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>
#include <utility>
#include <vector>

namespace opc {

/// Completes an OpConf in place against its definition: aliases to current names, arguments into definition order,
/// missing attributes to their defaults, missing outputs to "<op>/<arg>_0". Reports the first violation: unknown
/// argument or attribute, wrong count, wrong attribute type.
Status completeOpConf(const user_op::OpDef &def, user_op::OpConf *conf);

/// An op with the descriptors of its tensors. Tensors are numbered flat: all inputs in definition order, all outputs.
class OpInstance {
public:
  /// `conf` must have been completed.
  OpInstance(const user_op::OpDef &def, user_op::OpConf conf);

  const user_op::OpDef &def() const { return *def_; }
  const user_op::OpConf &conf() const { return wrapper_.conf(); }
  const user_op::UserOpConfWrapper &wrapper() const { return wrapper_; }
  const user_op::ArgList &inputArgs() const { return inputArgs_; }
  const user_op::ArgList &outputArgs() const { return outputArgs_; }
  std::vector<user_op::TensorDesc> &inputDescs() { return inputDescs_; }
  const std::vector<user_op::TensorDesc> &inputDescs() const { return inputDescs_; }
  std::vector<user_op::TensorDesc> &outputDescs() { return outputDescs_; }
  const std::vector<user_op::TensorDesc> &outputDescs() const { return outputDescs_; }
  /// On several devices inputDescs and outputDescs are those of the device's pieces, and these say where the pieces
  /// lie: one for each input, then each output. Empty on one device.
  void setShards(std::vector<user_op::TensorShard> shards, ParallelContext device) {
    shards_ = std::move(shards);
    parallel_ = device;
  }
  const std::vector<user_op::TensorShard> &shards() const { return shards_; }
  const ParallelContext &parallel() const { return parallel_; }
  /// Flat index of an argument; -1 when absent. Inputs and outputs are searched separately, inputs first.
  int findInput(const std::string &arg, int32_t index) const;
  int findOutput(const std::string &arg, int32_t index) const;

  /// Runs the attribute check, then the shape and dtype rules, over inputDescs() into outputDescs(); then checks what
  /// they wrote: rank at most kMaxRank, no negative dimension, an element count that fits, a tensor dtype.
  Status infer();

  /// The matching kernel of highest priority for a device.
  Result<const user_op::KernelDef *> selectKernel(const Registry &registry, DeviceType device) const;
  /// The temporary buffer's size in bytes for a kernel.
  Result<uint64_t> tmpSize(const user_op::KernelDef &kernel) const;
  /// The (output, input) pairs, as flat indices, that the kernel proposes to compute in place. OPC0412 where its
  /// function fails, or names an argument that the op does not have.
  Result<std::vector<std::pair<int, int>>> inplaceProposal(const user_op::KernelDef &kernel) const;
  /// The same where a wrong one has been reported already: none then.
  std::vector<std::pair<int, int>> inplacePairs(const user_op::KernelDef &kernel) const;

private:
  const user_op::OpDef *def_;
  user_op::UserOpConfWrapper wrapper_;
  user_op::ArgList inputArgs_, outputArgs_;
  std::vector<user_op::TensorDesc> inputDescs_, outputDescs_;
  std::vector<user_op::TensorShard> shards_;
  ParallelContext parallel_{0, 1};
};

/// Bytes of a tensor, or an error when the element count or the size overflows int64.
Result<int64_t> tensorBytes(const user_op::TensorDesc &desc);

} // namespace opc
