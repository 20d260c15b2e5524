// Values for the inputs of a sample instance.
// SPDX-License-Identifier: Apache-2.0
#include "CaseTrial.h"

#include <algorithm>
#include <cmath>

namespace opc {

using user_op::Case;
using user_op::OpDef;
using user_op::TensorDesc;

double uniformAt(uint64_t key) {
  key += 0x9e3779b97f4a7c15u;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((key ^ (key >> 31)) >> 11) * 0x1p-53;
}

namespace {

OpTensor valuesOf(const user_op::CaseInput &in, const TensorDesc &desc, uint64_t number) {
  OpTensor t(desc);
  for (int64_t i = 0; i < t.elements(); ++i) {
    double v = in.lo + (in.hi - in.lo) * uniformAt(1 + 1000003 * number + static_cast<uint64_t>(i));
    if (t.type() == kBool)
      v = v > (in.lo + in.hi) / 2;
    else if (!IsFloatingDataType(t.type()))
      v = std::floor(v);
    setElement(&t, i, v);
  }
  return t;
}

} // namespace

bool varies(const user_op::Case &sample) {
  return std::any_of(sample.inputs().begin(), sample.inputs().end(),
                     [](const user_op::CaseInput &in) { return in.type == kInvalidDataType; });
}
const char *shownType(const user_op::Case &sample, DataType type) {
  if (varies(sample)) return dataTypeName(type);
  return sample.inputs().empty() ? "" : dataTypeName(sample.inputs()[0].type);
}

std::string caseName(const Case &sample) {
  return sample.name().empty() ? "case without a name" : "case " + sample.name();
}

bool hasCpuKernel(const Registry &registry, const OpDef &op) {
  const auto &kernels = registry.kernels(op.name);
  return std::any_of(kernels.begin(), kernels.end(), [](const user_op::KernelDef *k) {
    const std::string device = kernelTarget(*k).device;
    return device.empty() || device == "cpu";
  });
}

Result<OpInstance> instanceOfCase(const Registry &registry, const OpDef &op, const Case &sample, DataType type,
                                  std::vector<size_t> *order) {
  SingleOp single{op.name, {}, sample.attrs(), sample.outputs()};
  for (const auto &in : sample.inputs())
    single.inputs.emplace_back(in.arg, TensorDesc(in.shape, in.type == kInvalidDataType ? type : in.type));
  return instanceOf(registry, single, order);
}

std::optional<CaseTrial> trialOf(const Registry &registry, const OpDef &op, const Case &sample, DataType type) {
  std::vector<size_t> order;
  auto instance = instanceOfCase(registry, op, sample, type, &order);
  if (!instance) return std::nullopt;
  CaseTrial trial{*std::move(instance), {}};
  for (size_t i = 0; i < order.size(); ++i)
    trial.inputs.push_back(valuesOf(sample.inputs()[order[i]], trial.op.inputDescs()[i], order[i] + 1));
  return trial;
}

} // namespace opc
