// How the graph around quantised ops changes.
// SPDX-License-Identifier: Apache-2.0
#include "QuantizedGraph.h"

#include "opc/Convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>

namespace opc::cli {

namespace {

StoredTensor stored(DataType type, const Shape &shape, std::vector<char> bytes) {
  const auto owner = std::make_shared<const std::vector<char>>(std::move(bytes));
  return {user_op::TensorDesc(shape, type), std::string_view(owner->data(), owner->size()), owner};
}
template <class T> StoredTensor stored(DataType type, const Shape &shape, const std::vector<T> &elements) {
  std::vector<char> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return stored(type, shape, std::move(bytes));
}

class Rewriter {
public:
  Rewriter(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values) : from_(facts) {
    made_.facts = facts;
    made_.facts.ops.clear();
    made_.values = values;
    for (const GraphOp &op : facts.ops) names_.insert(op.name);
    for (const auto *list : {&facts.inputs, &facts.outputs, &facts.variables})
      for (const GraphTensor &t : *list) names_.insert(t.name);
  }

  QuantizedGraph run(const std::vector<QuantizableOp> &ops, QuantizeMode mode,
                     const std::map<std::string, TensorRange> &ranges, int64_t block) {
    std::map<size_t, const QuantizableOp *> chosen;
    for (const QuantizableOp &q : ops) chosen[q.op] = &q;
    for (size_t i = 0; i < from_.ops.size(); ++i) {
      GraphOp op = from_.ops[i];
      if (const auto it = chosen.find(i); it != chosen.end()) {
        const QuantizableOp &q = *it->second;
        const GraphTensor &variable = from_.variables[q.variable];
        std::string &weightOf = op.inputs[q.weight].tensor;
        if (mode == QuantizeMode::kStatic) data(op.inputs[q.data].tensor, ranges.at(op.name));
        if (mode == QuantizeMode::kStatic) op.inputs[q.data].tensor = real_.at(op.inputs[q.data].tensor);
        switch (mode) {
        case QuantizeMode::kStatic:
        case QuantizeMode::kWeights: weightOf = weight(variable, q.axis); break;
        case QuantizeMode::kBfloat16: weightOf = halved(variable); break;
        case QuantizeMode::kBlocks:
          made_.blocks[op.name] = blocks(variable, q.axis, block);
          made_.blocks[op.name].data = op.inputs[q.data].tensor;
        }
      }
      made_.facts.ops.push_back(std::move(op));
    }
    dropUnused();
    return std::move(made_);
  }

private:
  std::string fresh(const std::string &wanted) {
    std::string name = wanted;
    for (int n = 2; !names_.insert(name).second; ++n) name = wanted + "_" + std::to_string(n);
    return name;
  }

  /// A variable that is not trained; its tensor.
  std::string constant(const std::string &name, StoredTensor value) {
    GraphTensor v;
    v.name = fresh(name);
    v.dtype = value.desc.data_type();
    v.shape = value.desc.shape();
    v.tensor = v.name + "/out";
    made_.values[v.name] = std::move(value);
    made_.facts.variables.push_back(v);
    return v.tensor;
  }

  std::string add(const std::string &name, const std::string &type,
                  const std::vector<std::pair<std::string, std::string>> &inputs, // of one tensor each
                  std::map<std::string, AttrValue> attrs, DataType dtype, const Shape &shape) {
    GraphOp op;
    op.name = fresh(name);
    op.type = type;
    for (const auto &[argument, tensor] : inputs) op.inputs.push_back({{argument, 0}, tensor});
    op.attrs = std::move(attrs);
    GraphTensor out;
    out.slot = {"out", 0};
    out.name = out.slot.text();
    out.dtype = dtype;
    out.shape = shape;
    out.tensor = op.name + "/out_0";
    op.outputs.push_back(out);
    made_.facts.ops.push_back(std::move(op));
    return out.tensor;
  }

  Shape shapeOf(const std::string &tensor) const {
    for (const auto *list : {&from_.inputs, &from_.variables})
      for (const GraphTensor &t : *list)
        if (t.tensor == tensor) return t.shape;
    for (const GraphOp &op : from_.ops)
      for (const GraphTensor &t : op.outputs)
        if (t.tensor == tensor) return t.shape;
    return Shape();
  }

  /// `tensor` through u8 and back, once for all its readers.
  void data(const std::string &tensor, const TensorRange &range) {
    if (real_.count(tensor)) return;
    std::string base = tensor;
    std::replace(base.begin(), base.end(), '/', '.');
    const AffineScale s = affineScale(range);
    const std::string scale = constant(base + ".scale", stored(kFloat, Shape(), std::vector<float>{s.scale}));
    const std::string zero = constant(base + ".zero", stored(kUInt8, Shape(), std::vector<uint8_t>{s.zero}));
    const Shape shape = shapeOf(tensor);
    const std::string steps =
        add(base + ".quantized", "quantize_linear", {{"in", tensor}, {"scale", scale}, {"zero_point", zero}},
            {{"axis", AttrValue(int32_t{0})}, {"dtype", AttrValue(kUInt8)}}, kUInt8, shape);
    real_[tensor] = add(base + ".real", "dequantize_linear", {{"in", steps}, {"scale", scale}, {"zero_point", zero}},
                        {{"axis", AttrValue(int32_t{0})}}, kFloat, shape);
  }

  /// i8 with a scale for each element of the axis, and the real numbers that they stand for.
  std::string weight(const GraphTensor &variable, int64_t axis) {
    const auto known = weights_.find({variable.name, axis});
    if (known != weights_.end()) return known->second;
    const Shape &shape = variable.shape;
    const int64_t count = shape.At(axis), inner = shape.Count(axis + 1), all = shape.elem_cnt();
    const StoredTensor &value = made_.values.at(variable.name);
    std::vector<float> from(static_cast<size_t>(all)), scales(static_cast<size_t>(count), 0);
    std::memcpy(from.data(), value.bytes.data(), value.bytes.size());
    letGo(value);
    const auto scaleAt = [&](int64_t i) { return static_cast<size_t>(i / inner % count); };
    for (int64_t i = 0; i < all; ++i) {
      float &most = scales[scaleAt(i)];
      most = std::max(most, std::abs(from[static_cast<size_t>(i)]));
    }
    for (float &s : scales) s = s > 0 ? std::max(s / 127, std::numeric_limits<float>::min()) : 1;
    std::vector<int8_t> steps(static_cast<size_t>(all));
    for (int64_t i = 0; i < all; ++i)
      steps[static_cast<size_t>(i)] = static_cast<int8_t>(
          std::clamp(std::rint(from[static_cast<size_t>(i)] / scales[scaleAt(i)]), -127.0f, 127.0f));
    const std::string integers = constant(variable.name + ".int8", stored(kInt8, shape, steps));
    const std::string scale = constant(variable.name + ".scale", stored(kFloat, Shape{count}, scales));
    return weights_[{variable.name, axis}] =
               add(variable.name + ".real", "dequantize_linear", {{"in", integers}, {"scale", scale}},
                   {{"axis", AttrValue(static_cast<int32_t>(axis))}}, kFloat, shape);
  }

  /// A number from 0 to 15 for each element, two to a byte, where 8 stands for 0; a scale for each block of a column,
  /// by which the element farthest from 0 has the number 0. Columns lie one after another.
  const BlockProduct &blocks(const GraphTensor &variable, int64_t axis, int64_t block) {
    const auto known = blocks_.find({variable.name, axis});
    if (known != blocks_.end()) return known->second;
    const int64_t columns = variable.shape.At(axis), terms = variable.shape.At(1 - axis);
    const int64_t perColumn = (terms + block - 1) / block, ofTerm = axis == 0 ? 1 : columns,
                  ofColumn = axis == 0 ? terms : 1;
    const StoredTensor &value = made_.values.at(variable.name);
    std::vector<float> from(static_cast<size_t>(columns * terms));
    std::memcpy(from.data(), value.bytes.data(), value.bytes.size());
    letGo(value);
    std::vector<uint8_t> steps(static_cast<size_t>(columns * perColumn * block / 2), 0x88);
    std::vector<float> scales(static_cast<size_t>(columns * perColumn), 1);
    for (int64_t b = 0; b < columns * perColumn; ++b) {
      const int64_t first = b % perColumn * block, count = std::min(block, terms - first);
      const auto at = [&](int64_t t) {
        return from[static_cast<size_t>(b / perColumn * ofColumn + (first + t) * ofTerm)];
      };
      float most = 0;
      for (int64_t t = 0; t < count; ++t)
        if (std::abs(at(t)) > std::abs(most)) most = at(t);
      if (most == 0) continue;
      const float scale = std::copysign(std::max(std::abs(most) / 8, std::numeric_limits<float>::min()), -most);
      scales[static_cast<size_t>(b)] = scale;
      for (int64_t t = 0; t < count; ++t) {
        const auto step = static_cast<uint8_t>(std::clamp(std::rint(at(t) / scale) + 8, 0.0f, 15.0f));
        uint8_t &pair = steps[static_cast<size_t>(b * block / 2 + t / 2)];
        pair = static_cast<uint8_t>(t % 2 ? (pair & 0x0f) | (step << 4) : (pair & 0xf0) | step);
      }
    }
    BlockProduct &made = blocks_[{variable.name, axis}];
    made.terms = terms, made.columns = columns, made.block = block;
    made.steps = constant(variable.name + ".int4", stored(kUInt8, Shape{columns, perColumn, block / 2}, steps));
    made.scales = constant(variable.name + ".scale", stored(kFloat, Shape{columns * perColumn}, scales));
    return made;
  }

  std::string halved(const GraphTensor &variable) {
    const auto known = weights_.find({variable.name, -1});
    if (known != weights_.end()) return known->second;
    const StoredTensor &value = made_.values.at(variable.name);
    std::vector<bfloat16> halves;
    for (int64_t i = 0; i < variable.shape.elem_cnt(); ++i) {
      float x;
      std::memcpy(&x, value.bytes.data() + i * 4, 4);
      halves.push_back(convertElement<bfloat16>(x));
    }
    letGo(value);
    const std::string stands = constant(variable.name + ".bf16", stored(kBFloat16, variable.shape, halves));
    return weights_[{variable.name, -1}] = add(variable.name + ".real", "cast", {{"in", stands}},
                                               {{"dtype", AttrValue(kFloat)}}, kFloat, variable.shape);
  }

  /// Variables that nobody reads any more.
  void dropUnused() {
    std::set<std::string> read;
    for (const GraphOp &op : made_.facts.ops) {
      const auto blocks = made_.blocks.find(op.name);
      if (blocks != made_.blocks.end())
        read.insert({blocks->second.data, blocks->second.steps, blocks->second.scales});
      else
        for (const auto &[arg, tensor] : op.inputs) read.insert(tensor);
    }
    for (const GraphTensor &t : made_.facts.outputs) read.insert(t.tensor);
    auto &variables = made_.facts.variables;
    for (const GraphTensor &v : variables)
      if (!read.count(v.tensor)) made_.values.erase(v.name);
    variables.erase(
        std::remove_if(variables.begin(), variables.end(), [&](const GraphTensor &v) { return !read.count(v.tensor); }),
        variables.end());
  }

  const GraphFacts &from_;
  QuantizedGraph made_;
  std::set<std::string> names_;
  std::map<std::string, std::string> real_;                        // by tensor: after quantisation
  std::map<std::pair<std::string, int64_t>, std::string> weights_; // by variable and axis
  std::map<std::pair<std::string, int64_t>, BlockProduct> blocks_; // the same, without data
};

} // namespace

QuantizedGraph quantizedGraph(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                              const std::vector<QuantizableOp> &ops, QuantizeMode mode,
                              const std::map<std::string, TensorRange> &ranges, int64_t block) {
  return Rewriter(facts, values).run(ops, mode, ranges, block);
}

} // namespace opc::cli
