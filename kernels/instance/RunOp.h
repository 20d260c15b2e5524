// Runs one op on the CPU by itself, outside any plan: for constant folding, proofs by execution and tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc {

/// A tensor in host memory: zeros at first. Like the arenas of a session it begins at a cache line and fills whole
/// ones, for kernels may load past the last element.
class OpTensor {
public:
  OpTensor() = default;
  explicit OpTensor(user_op::TensorDesc desc);
  const user_op::TensorDesc &desc() const { return desc_; }
  const Shape &shape() const { return desc_.shape(); }
  DataType type() const { return desc_.data_type(); }
  int64_t elements() const { return desc_.shape().elem_cnt(); }
  size_t bytes() const { return bytes_; }
  void *data() { return lines_.data(); }
  const void *data() const { return lines_.data(); }
  template <class T = char> T *mut_dptr() { return static_cast<T *>(data()); }
  template <class T = char> const T *dptr() const { return static_cast<const T *>(data()); }
  /// The same type, shape and bytes.
  bool operator==(const OpTensor &o) const;
  bool operator!=(const OpTensor &o) const { return !(*this == o); }

private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  user_op::TensorDesc desc_;
  size_t bytes_ = 0;
  std::vector<Line> lines_;
};

/// An element as a number, and back: integers take the low bits of its whole part, so that negative addends of unsigned
/// ones wrap around as their sum does.
double element(const OpTensor &tensor, int64_t i);
void setElement(OpTensor *tensor, int64_t i, double value);

/// An op as a graph would name it.
struct SingleOp {
  std::string type;
  /// In any order; an argument that comes n times has n tensors.
  std::vector<std::pair<std::string, user_op::TensorDesc>> inputs = {};
  std::map<std::string, AttrValue> attrs = {};
  /// Optional outputs that are wanted, and the counts of variadic ones. The others come by themselves.
  std::map<std::string, int32_t> outputs = {};
  std::string name = "op";
};

/// The op completed and inferred. `order[i]` is the place in `inputs` of the instance's input i.
Result<OpInstance> instanceOf(const Registry &registry, const SingleOp &op, std::vector<size_t> *order = nullptr);

struct RunOpOptions {
  DeviceCtx device{DeviceType::kCPU, 1, nullptr};
  std::vector<bool> constant;               // inputs that are bound as constants; empty: none
  std::vector<std::pair<int, int>> inplace; // (output, input) at one address; the kernel must offer each pair
  int runs = 1;                             // of one kernel object, whose state goes on
  unsigned char fill = 0;                   // what the bytes of outputs and workspace are before
  bool guards = false;                      // between guards of 16 KiB: OPC0606 when the kernel writes beside a tensor
  std::optional<unsigned char> guardByte;   // what the guards are full of, in place of a pattern
  /// A guard that is full of something else: of an input, then an output, then the temporary memory.
  struct Guard {
    size_t tensor = 0;
    bool isBehind = false;
    unsigned char byte = 0;
  };
  std::optional<Guard> otherGuard;
  uint64_t maxOutputBytes = uint64_t{1} << 32, maxWorkspaceBytes = uint64_t{1} << 28;
};

/// Runs an inferred op with the kernel that a session would choose. `inputs` are those of the op, in its order; inputs
/// that the op updates are written, and so are those that an output shares. Errors: those of choosing, creating and
/// running the kernel; OPC0302 when outputs or workspace are larger than the options allow.
Status runOp(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
             std::vector<OpTensor> *outputs, const RunOpOptions &options = {});

} // namespace opc
