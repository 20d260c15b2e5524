// Which ops a GPU computes in regions, and where their operands' elements are.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceLoop.h"
#include "BuiltIn.h"
#include "ColumnParts.h"
#include "DeviceCode.h"
#include "DeviceRows.h"
#include "RegionCode.h"
#include "RegionKey.h"
#include "opc/BroadcastDims.h"

#include <algorithm>

namespace opc {

using scalar::ScalarOp;
using user_op::TensorDesc;

bool hasDeviceFunction(ScalarOp op, DataType type) {
  const bool isDouble = type == kDouble;
  switch (op) {
  // The C library's remainder, and functions of its own.
  case ScalarOp::fmod:
  case ScalarOp::floordiv:
  case ScalarOp::floormod:
  case ScalarOp::truncdiv: return elementType(type).kind != ElementClass::kFloating;
  case ScalarOp::asin:
  case ScalarOp::acos:
  case ScalarOp::atan:
  case ScalarOp::atan2:
  case ScalarOp::asinh:
  case ScalarOp::acosh:
  case ScalarOp::atanh:
  case ScalarOp::erfc:
  case ScalarOp::lgamma:
  case ScalarOp::digamma:
  case ScalarOp::trigamma:
  case ScalarOp::polygamma: return false;
  case ScalarOp::exp:
  case ScalarOp::exp2:
  case ScalarOp::expm1:
  case ScalarOp::log:
  case ScalarOp::log2:
  case ScalarOp::log10:
  case ScalarOp::log1p:
  case ScalarOp::sin:
  case ScalarOp::cos:
  case ScalarOp::tan:
  case ScalarOp::sinh:
  case ScalarOp::cosh:
  case ScalarOp::tanh:
  case ScalarOp::erf:
  case ScalarOp::sigmoid:
  case ScalarOp::softplus:
  case ScalarOp::pow: return !isDouble;
  default: return true;
  }
}

namespace {

bool isComputed(DataType type) {
  switch (type) {
  case kFloat:
  case kDouble:
  case kFloat16:
  case kBFloat16:
  case kInt8:
  case kUInt8:
  case kBool:
  case kInt32:
  case kInt64: return true;
  default: return false;
  }
}

/// Whether code knows the op without an expression. Masks are no floats.
bool isKnown(const OpInstance &op, const user_op::KernelDef &kernel) {
  if (!isBuiltIn(kernel.origin)) return false;
  const std::string &type = op.def().name;
  const auto isMask = [&](size_t input) {
    return elementType(op.inputDescs()[input].data_type()).kind != ElementClass::kFloating;
  };
  return type == "cast" || type == "bias_add" || (type == "where" && isMask(0)) || (type == "masked_fill" && isMask(1));
}

} // namespace

bool mayJoinOnDevice(const OpInstance &op, const user_op::KernelDef &kernel, const Joinable &loops) {
  if (!loops.may || loops.moves) return false;
  if (loops.rows) return !isByColumns(*loops.rows) && deviceRowOp(op, kernel).has_value();
  if (op.outputDescs().size() != 1 || op.inputDescs().empty() || !op.shards().empty()) return false;
  const DataType type = op.inputDescs()[0].data_type();
  const auto fits = [](const TensorDesc &d) { return isComputed(d.data_type()); };
  if (!std::all_of(op.inputDescs().begin(), op.inputDescs().end(), fits) || !fits(op.outputDescs()[0])) return false;
  if (isKnown(op, kernel)) return true;
  if (!op.def().scalar) return false;
  for (const TensorDesc &d : op.inputDescs())
    if (d.data_type() != type) return false;
  const auto &nodes = op.def().scalar->nodes();
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto &n) { return hasDeviceFunction(n.op, type); });
}

std::shared_ptr<const Region> deviceRegionOfOne(const OpInstance &op, const user_op::KernelDef &kernel) {
  Joinable loops = joinable(op, kernel);
  if (!mayJoinOnDevice(op, kernel, loops)) return nullptr;
  auto region = std::make_shared<Region>();
  region->inputs = op.inputDescs();
  RegionStep step{op, &kernel, {}};
  for (uint32_t i = 0; i < region->inputs.size(); ++i) step.args.push_back(i);
  step.rows = std::move(loops.rows);
  region->add(std::move(step));
  for (uint32_t o = 0; o < op.outputDescs().size(); ++o) region->outputs.push_back(region->valueOf(0) + o);
  return completeRegion(region.get()).isOk() ? region : nullptr;
}

namespace {

constexpr int64_t kAccess = 16, kMostLanes = 8;

} // namespace

DeviceLoop deviceLoopOf(const Region &region) {
  DeviceLoop loop;
  const int64_t elements = region.shape.elem_cnt();
  int64_t widest = 1;
  const auto widen = [&](const TensorDesc &d) {
    widest = std::max(widest, static_cast<int64_t>(GetSizeOfDataType(d.data_type())));
  };
  bool isBroadcast = false;
  std::vector<Shape> shapes;
  for (const TensorDesc &in : region.inputs) {
    shapes.push_back(in.shape());
    const int64_t own = in.shape().elem_cnt();
    DeviceLoop::Input input;
    if (own == elements)
      widen(in);
    else
      input.read = own == 1 ? DeviceLoop::Read::kSingle : DeviceLoop::Read::kBroadcast;
    isBroadcast |= input.read == DeviceLoop::Read::kBroadcast;
    loop.inputs.push_back(std::move(input));
  }
  for (uint32_t v : region.outputs) widen(region.descOf(v));
  int64_t lanes = std::min(kMostLanes, kAccess / widest);
  if (isBroadcast && elements > 0) {
    const std::vector<BroadcastDim> dims = broadcastDims(region.shape, shapes);
    while (dims.front().size % lanes) lanes /= 2;
    for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
      loop.dims.push_back(d->size);
      for (size_t k = 0; k < loop.inputs.size(); ++k)
        if (loop.inputs[k].read == DeviceLoop::Read::kBroadcast) loop.inputs[k].strides.push_back(d->strides[k]);
    }
  }
  loop.lanes = static_cast<unsigned>(lanes);
  return loop;
}

std::shared_ptr<DeviceCompiler> deviceCompiler() { return std::dynamic_pointer_cast<DeviceCompiler>(regionCompiler()); }
std::shared_ptr<DeviceCompiler> deviceCompilerOfLoad() {
  return std::dynamic_pointer_cast<DeviceCompiler>(compilerOfLoad());
}

/// Where elements are in a region by rows follows from the shapes; of rows there may be any number where nothing is
/// broadcast over some of their dimensions.
static std::string rowKey(const Region &region) {
  std::string key = "\nrows of " + std::to_string(region.rowSize);
  for (const TensorDesc &in : region.inputs) key += in.shape().ToString();
  for (const RegionStep &step : region.steps) {
    key += ';';
    for (const TensorDesc &made : step.op.outputDescs())
      key += dataTypeName(made.data_type()) + made.shape().ToString();
  }
  return key;
}

std::string deviceRegionKey(const Region &region) {
  std::string key = regionKey(region);
  if (region.rowSize > 0) return key + rowKey(region);
  const DeviceLoop loop = deviceLoopOf(region);
  key += "\nlanes " + std::to_string(loop.lanes) + " dims";
  for (int64_t d : loop.dims) key += ' ' + std::to_string(d);
  for (const DeviceLoop::Input &in : loop.inputs) {
    key += ';';
    for (int64_t s : in.strides) key += ' ' + std::to_string(s);
  }
  return key;
}

} // namespace opc
