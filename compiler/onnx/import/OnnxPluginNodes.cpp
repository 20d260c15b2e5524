// Nodes of domains that are not ONNX's: opc's op of that name, most often a plugin's.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxPluginNodes.h"

#include "OnnxNames.h"
#include "OnnxTensorData.h"

#include <algorithm>
#include <cstring>

namespace opc::onnx {
namespace {

/// The numbers of a tensor without a file beside it; nothing of another type.
template <class T> std::optional<std::vector<T>> numbersOf(const Tensor &tensor) {
  const Result<StoredTensor> read = tensorOf(tensor);
  if (!read || read->desc.data_type() != GetDataType<T>::value) return std::nullopt;
  std::vector<T> values(read->bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), read->bytes.data(), read->bytes.size());
  return values;
}

std::vector<int64_t> integersOf(const Attribute &a) { return {a.ints().begin(), a.ints().end()}; }

/// Of a kind that has no other kind of ONNX: element types, doubles that no float is, shapes. Empty: of none.
AttrValue wideAttribute(const Conversion &c, const Attribute &a, AttrType type) {
  if (a.type() == Attribute::INT && type == kAtDataType) return c.elementTypeOf(a.i());
  if (a.type() == Attribute::INTS && type == kAtListDataType) {
    std::vector<DataType> types;
    for (const int64_t number : a.ints()) types.push_back(c.elementTypeOf(number));
    return types;
  }
  if (a.type() == Attribute::TENSOR && type == kAtDouble) {
    const auto values = numbersOf<double>(a.t());
    if (a.t().dims_size() == 0 && values && values->size() == 1) return values->front();
  }
  if (a.type() == Attribute::TENSORS && type == kAtListShape) {
    std::vector<Shape> shapes;
    for (const Tensor &t : a.tensors()) {
      const auto dims = numbersOf<int64_t>(t);
      if (!dims) return {};
      shapes.push_back(Shape(DimVector(dims->begin(), dims->end())));
    }
    return shapes;
  }
  return {};
}

void checkRange(const Conversion &c, const std::string &name, const Attribute &a, AttrType type) {
  if (type == kAtBool && a.type() == Attribute::INT && a.i() != 0 && a.i() != 1)
    c.invalid("attribute '" + shown(name) + "' has " + std::to_string(a.i()) + ", and a flag is 0 or 1");
  std::vector<int64_t> values = a.type() == Attribute::INT ? std::vector<int64_t>{a.i()} : integersOf(a);
  if (type != kAtInt32 && type != kAtListInt32) return;
  for (const int64_t v : values)
    if (v != static_cast<int32_t>(v))
      c.invalid("attribute '" + shown(name) + "' has " + std::to_string(v) + ", and is of 32 bits");
}

AttrValue attributeOf(const Conversion &c, const Attribute &a, AttrType type) {
  if (AttrValue wide = wideAttribute(c, a, type); !wide.empty()) return wide;
  switch (a.type()) {
  case Attribute::INT: return int64_t{a.i()};
  case Attribute::FLOAT: return static_cast<double>(a.f());
  case Attribute::STRING: return std::string(a.s());
  case Attribute::INTS: return integersOf(a);
  case Attribute::FLOATS: return std::vector<float>(a.floats().begin(), a.floats().end());
  case Attribute::STRINGS: return std::vector<std::string>(a.strings().begin(), a.strings().end());
  default: return {};
  }
}

/// Where an argument of an op lies among a node's values.
struct Place {
  size_t first, count;
};

/// In the order of the definition: a variadic argument takes what the others leave.
std::vector<Place> placesOf(const std::vector<user_op::ArgDef> &args, size_t values) {
  size_t fixed = 0;
  for (const user_op::ArgDef &arg : args) fixed += arg.atLeast ? 0 : static_cast<size_t>(arg.count);
  std::vector<Place> places;
  for (size_t first = 0; const user_op::ArgDef &arg : args) {
    const size_t count = arg.atLeast ? values - std::min(values, fixed) : static_cast<size_t>(arg.count);
    places.push_back({first, count});
    first += count;
  }
  return places;
}

} // namespace

std::vector<Term> convertPluginNode(const user_op::OpDef &def, const Node &node, std::vector<Term> inputs,
                                    const std::map<std::string, const Attribute *> &attributes, GraphDraft *draft,
                                    GraphInliner *inliner) {
  inputs.resize(static_cast<size_t>(node.input_size())); // those that are left out at the end count, too
  for (Term &input : inputs) input = draft->whole(input);
  const Conversion c(*draft, node, 1, inputs, attributes, inliner);
  Attrs attrs;
  for (const auto &[name, a] : attributes) {
    const user_op::AttrDef *known = def.findAttr(name);
    if (!known) c.invalid("op " + def.name + " has no attribute '" + shown(name) + "'");
    checkRange(c, name, *a, known->type);
    AttrValue value = attributeOf(c, *a, known->type);
    if (value.empty()) c.unsupported("attribute '" + shown(name) + "' is of a kind that no op of opc has");
    attrs[name] = std::move(value);
  }
  const auto outputs = static_cast<size_t>(node.output_size());
  const std::vector<Place> places = placesOf(def.outputs, outputs);
  const size_t most = places.empty() ? 0 : places.back().first + places.back().count;
  for (size_t k = most; k < outputs; ++k)
    if (const std::string &name = node.output(static_cast<int>(k)); !name.empty())
      c.invalid("output " + std::to_string(k) + " ('" + shown(name) + "') is too many: op " + def.name + " has " +
                std::to_string(most));
  const auto isWanted = [&](const Place &p) {
    for (size_t k = p.first; k < std::min(p.first + p.count, outputs); ++k)
      if (!node.output(static_cast<int>(k)).empty()) return true;
    return false;
  };
  std::map<std::string, int32_t> counts;
  std::vector<size_t> made; // where the op's outputs lie
  for (size_t a = 0; a < places.size(); ++a) {
    const user_op::ArgDef &arg = def.outputs[a];
    if (arg.optional && !isWanted(places[a])) continue;
    if (places[a].count > 0) counts[arg.name] = static_cast<int32_t>(places[a].count);
    for (size_t k = 0; k < places[a].count; ++k) made.push_back(places[a].first + k);
  }
  std::vector<Term> results(outputs);
  const std::vector<Term> terms = draft->add(def.name, inputs, attrs, counts);
  for (size_t k = 0; k < std::min(made.size(), terms.size()); ++k)
    if (made[k] < outputs) results[made[k]] = terms[k];
  return results;
}

} // namespace opc::onnx
