// What a region computes, as text.
// SPDX-License-Identifier: Apache-2.0
#include "RegionKey.h"
#include "BuiltIn.h"
#include "RegionCode.h"

#include "opc/Scalar.h"

#include <bit>

namespace opc {
namespace {

/// The expression that an op was registered with, and what its attributes say for it.
std::string expressionOf(const OpInstance &op) {
  const scalar::ScalarProgram *program = op.def().scalar.get();
  std::string key = "\n";
  if (!program) return key;
  auto bits = [&](double d) { key += ' ' + std::to_string(std::bit_cast<uint64_t>(d)); };
  for (const scalar::ScalarProgram::Node &n : program->nodes()) {
    key += std::to_string(static_cast<int>(n.op)) + ' ' + std::to_string(n.parameter);
    for (int32_t a : n.args) key += ' ' + std::to_string(a);
    bits(n.value);
    key += ';';
  }
  if (!program->attributes || op.inputDescs().empty()) return key;
  for (const scalar::ScalarValue &v : program->attributes(op.wrapper(), op.inputDescs()[0].data_type())) {
    key += v.isInteger ? " i" + std::to_string(v.integer) : " r";
    bits(v.real);
  }
  return key;
}

} // namespace

bool isBuiltIn(const RegionStep &step) { return isBuiltIn(step.kernel->origin); }

std::string regionKey(const Region &region) {
  std::string key;
  auto add = [&](const auto &number) { key += std::to_string(number) + ' '; };
  for (const user_op::TensorDesc &d : region.inputs) {
    add(static_cast<int>(d.data_type()));
    key += d.shape().elem_cnt() == 1 && region.shape.elem_cnt() != 1 ? "1 " : "n ";
  }
  for (const RegionStep &step : region.steps) {
    key += step.op.def().name + (isBuiltIn(step) ? " " : " of a plugin ");
    for (const auto &[name, value] : step.op.conf().attrs) {
      key += name + '=' + value.toString();
      if (const auto *f = value.get<float>()) add(std::bit_cast<uint32_t>(*f));
      if (const auto *d = value.get<double>()) add(std::bit_cast<uint64_t>(*d));
      key += ';';
    }
    for (uint32_t v : step.args) add(v);
    add(static_cast<int>(step.op.outputDescs()[0].data_type()));
  }
  for (uint32_t v : region.outputs) add(v);
  for (const RegionStep &step : region.steps) key += expressionOf(step.op);
  return key;
}

Region stepAlone(const Region &region, size_t step) {
  Region one;
  one.shape = Shape({kMaxRegionLanes});
  RegionStep copy = region.steps[step];
  for (uint32_t &v : copy.args) {
    one.inputs.emplace_back(one.shape, region.descOf(v).data_type());
    v = static_cast<uint32_t>(one.inputs.size() - 1);
  }
  one.add(std::move(copy));
  one.outputs = {one.valueOf(0)};
  return one;
}

} // namespace opc
