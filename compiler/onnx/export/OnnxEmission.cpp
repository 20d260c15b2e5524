// One op of a graph on its way into ONNX nodes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmission.h"

#include "OnnxTensors.h"
#include "PrintableText.h"

#include "opc/Convert.h"

#include <algorithm>
#include <cstring>

namespace opc::onnx_export {

namespace {

constexpr size_t kNodeBytes = 1 << 10; // of a Constant node; importers make variables of larger values

Shape of(const std::vector<int64_t> &dims) { return Shape(dims.data(), static_cast<int64_t>(dims.size())); }

} // namespace

Shape broadcast(const Shape &a, const Shape &b) {
  const int64_t rank = std::max(a.NumAxes(), b.NumAxes());
  Shape all = Shape::Ones(rank);
  for (const Shape *s : {&a, &b})
    for (int64_t i = 0; i < s->NumAxes(); ++i)
      if (s->At(i) != 1) all.Set(rank - s->NumAxes() + i, s->At(i));
  return all;
}

std::string Nodes::fresh(const std::string &wanted) {
  if (outer_) return outer_->fresh(wanted);
  const std::string shown = wanted.empty() ? "unnamed" : printableName(wanted);
  std::string name = shown;
  for (int i = 2; !taken_.insert(name).second; ++i) name = shown + "~" + std::to_string(i);
  return name;
}

const Wire *Nodes::find(const std::pair<DataType, std::pair<std::vector<int64_t>, std::string>> &key) const {
  const auto at = constants_.find(key);
  return at != constants_.end() ? &at->second : outer_ ? outer_->find(key) : nullptr;
}

Wire Nodes::constant(DataType type, const Shape &shape, std::string bytes) {
  const std::vector<int64_t> dims(shape.begin(), shape.end());
  if (const Wire *known = find({type, {dims, bytes}})) return *known;
  if (outer_ && bytes.size() > kNodeBytes) return outer_->constant(type, shape, std::move(bytes));
  Wire &wire = constants_[{type, {dims, bytes}}];
  wire = {fresh("constant"), type, shape};
  onnx::Tensor *tensor;
  if (bytes.size() <= kNodeBytes) {
    onnx::Node *node = graph_->add_node();
    node->set_op_type("Constant");
    node->set_name(wire.name);
    node->add_output(wire.name);
    onnx::Attribute *value = node->add_attribute();
    value->set_name("value");
    value->set_type(onnx::Attribute::TENSOR);
    tensor = value->mutable_t();
  } else {
    tensor = graph_->add_initializer();
    tensor->set_name(wire.name);
  }
  wire::toOnnx({shape, type}, bytes, tensor);
  return wire;
}

std::optional<Wire> Nodes::asNumber(const Wire &x) {
  const size_t size = GetSizeOfDataType(x.type);
  for (const Nodes *nodes = this; nodes; nodes = nodes->outer_)
    for (const auto &[key, wire] : nodes->constants_) {
      if (wire.name != x.name) continue;
      const std::string &bytes = key.second.second;
      if (bytes.size() < size || bytes.compare(size, std::string::npos, bytes, 0, bytes.size() - size) != 0) break;
      return constant(x.type, Shape(), bytes.substr(0, size));
    }
  return std::nullopt;
}

void describe(const Wire &wire, onnx::Value *value) {
  value->set_name(wire.name);
  auto *type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(elementType(wire.type).onnx);
  auto *shape = type->mutable_shape();
  for (const int64_t d : wire.shape) shape->add_dim()->set_dim_value(d);
}

std::string elementBytes(DataType type, const std::vector<double> &values) {
  std::string bytes(values.size() * GetSizeOfDataType(type), '\0');
  switch (type) {
#define OPC_ELEMENT(enumerator, number, cpp, ...)                                                                      \
  case enumerator:                                                                                                     \
    for (size_t k = 0; k < values.size(); ++k) {                                                                       \
      const cpp v = convertElement<cpp>(values[k]);                                                                    \
      std::memcpy(&bytes[k * sizeof v], &v, sizeof v);                                                                 \
    }                                                                                                                  \
    break;
    OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  default: break;
  }
  return bytes;
}

// What the op has -----------------------------------------------------------------------------------------------------

DataType Emission::computed(DataType type) const {
  if (types == Types::kOwn) return type;
  switch (type) {
  case kBFloat16: return kFloat;
  case kFloat16: return types == Types::kWide ? kFloat : kFloat16;
  case kInt8:
  case kUInt8:
  case kInt16:
  case kUInt16:
  case kBool: return kInt32;
  case kUInt32:
  case kUInt64: return kInt64;
  default: return type;
  }
}

Wire Emission::raw(const std::string &arg, int32_t index) const {
  const int flat = instance.findInput(arg, index);
  if (flat < 0) refuse("it has no input '" + arg + "'");
  return wires_.at(instance.wrapper().input(arg, index));
}

Wire Emission::in(const std::string &arg, int32_t index) {
  const Wire x = raw(arg, index);
  return cast(x, computed(x.type));
}

int64_t Emission::i(const std::string &name) const {
  const AttrValue &v = instance.conf().attrs.at(name);
  if (const auto *narrow = v.get<int32_t>()) return *narrow;
  return instance.wrapper().attr<int64_t>(name);
}

double Emission::f(const std::string &name) const {
  const AttrValue &v = instance.conf().attrs.at(name);
  if (const auto *narrow = v.get<float>()) return *narrow;
  return instance.wrapper().attr<double>(name);
}

std::vector<int64_t> Emission::ints(const std::string &name) const {
  const AttrValue &v = instance.conf().attrs.at(name);
  if (const auto *list = v.get<std::vector<int32_t>>()) return {list->begin(), list->end()};
  if (const auto *shape = v.get<Shape>()) return {shape->begin(), shape->end()};
  return instance.wrapper().attr<std::vector<int64_t>>(name);
}

const user_op::TensorDesc &Emission::made(const std::string &arg, int32_t index) const {
  return instance.outputDescs().at(static_cast<size_t>(instance.findOutput(arg, index)));
}

// What is made of it --------------------------------------------------------------------------------------------------

std::vector<Wire> Emission::nodes(const std::string &type, const std::vector<Wire> &inputs, const NodeAttrs &attrs,
                                  const std::vector<std::pair<DataType, Shape>> &made) {
  onnx::Node *node = nodes_.graph().add_node();
  node->set_op_type(type);
  for (const Wire &x : inputs) node->add_input(nameOf(x));
  for (const auto &[name, value] : attrs) {
    onnx::Attribute *a = node->add_attribute();
    a->set_name(name);
    switch (value.kind) {
    case NodeAttr::Kind::kInt: a->set_type(onnx::Attribute::INT), a->set_i(value.integer); break;
    case NodeAttr::Kind::kReal: a->set_type(onnx::Attribute::FLOAT), a->set_f(static_cast<float>(value.real)); break;
    case NodeAttr::Kind::kText: a->set_type(onnx::Attribute::STRING), a->set_s(value.text); break;
    case NodeAttr::Kind::kInts:
      a->set_type(onnx::Attribute::INTS);
      for (const int64_t v : value.integers) a->add_ints(v);
      break;
    case NodeAttr::Kind::kReals:
      a->set_type(onnx::Attribute::FLOATS);
      for (const float v : value.reals) a->add_floats(v);
      break;
    case NodeAttr::Kind::kTexts:
      a->set_type(onnx::Attribute::STRINGS);
      for (const std::string &v : value.texts) a->add_strings(v);
      break;
    case NodeAttr::Kind::kGraph: a->set_type(onnx::Attribute::GRAPH), *a->mutable_g() = *value.graph; break;
    }
  }
  std::vector<Wire> wires;
  for (const auto &[dtype, shape] : made) {
    const std::string name = dtype == kInvalidDataType ? "" : nodes_.fresh(op.name + "/" + std::to_string(++made_));
    node->add_output(name);
    wires.push_back({name, dtype, shape});
  }
  while (node->output_size() > 1 && node->output(node->output_size() - 1).empty()) node->mutable_output()->RemoveLast();
  return wires;
}

Wire Emission::node(const std::string &type, const std::vector<Wire> &inputs, const NodeAttrs &attrs, DataType made,
                    const Shape &shape) {
  return nodes(type, inputs, attrs, {{made, shape}})[0];
}

Wire Emission::binary(const std::string &type, const Wire &x, const Wire &y) {
  return node(type, {x, y}, {}, x.type, broadcast(x.shape, y.shape));
}

Wire Emission::test(const std::string &type, const Wire &x, const Wire &y) {
  return node(type, {x, y}, {}, kBool, broadcast(x.shape, y.shape));
}

Wire Emission::select(const Wire &condition, const Wire &x, const Wire &y) {
  return node("Where", {condition, x, y}, {}, x.type, broadcast(condition.shape, broadcast(x.shape, y.shape)));
}

Wire Emission::cast(const Wire &x, DataType type) {
  if (x.type == type) return x;
  Wire &made = casts_[x.name + " " + dataTypeName(type)];
  if (made.name.empty()) made = node("Cast", {x}, {{"to", elementType(type).onnx}}, type, x.shape);
  return made;
}

Wire Emission::constant(DataType type, const Shape &shape, const std::vector<double> &values) {
  return nodes_.constant(type, shape, elementBytes(type, values));
}

Wire Emission::integers(const std::vector<int64_t> &values, const Shape &shape) {
  return nodes_.constant(kInt64, shape,
                         std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t)));
}

Wire Emission::integers(const std::vector<int64_t> &values) {
  return integers(values, Shape({static_cast<int64_t>(values.size())}));
}

Wire Emission::reshape(const Wire &x, const std::vector<int64_t> &dims) { return reshape(x, of(dims)); }

Wire Emission::reshape(const Wire &x, const Shape &shape) {
  if (x.shape == shape) return x;
  NodeAttrs attrs;
  if (std::count(shape.begin(), shape.end(), 0)) attrs.insert({"allowzero", 1});
  return node("Reshape", {x, integers({shape.begin(), shape.end()})}, attrs, x.type, shape);
}

Wire Emission::transpose(const Wire &x, const std::vector<int64_t> &perm) {
  Shape shape = x.shape;
  bool moves = false;
  for (size_t k = 0; k < perm.size(); ++k) {
    shape.Set(static_cast<int64_t>(k), x.dim(perm[k]));
    moves |= perm[k] != static_cast<int64_t>(k);
  }
  return moves ? node("Transpose", {x}, {{"perm", perm}}, x.type, shape) : x;
}

Wire Emission::swapped(const Wire &x) {
  std::vector<int64_t> perm;
  for (int64_t k = 0; k + 2 < x.rank(); ++k) perm.push_back(k);
  perm.insert(perm.end(), {x.rank() - 1, x.rank() - 2});
  return transpose(x, perm);
}

Wire Emission::expand(const Wire &x, const Shape &shape) {
  if (x.shape == shape) return x;
  return node("Expand", {x, integers({shape.begin(), shape.end()})}, {}, x.type, shape);
}

Wire Emission::slice(const Wire &x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  if (begin == 0 && end == x.dim(axis) && step == 1) return x;
  Shape shape = x.shape;
  shape.Set(axis, (end - begin + step - (step > 0 ? 1 : -1)) / step);
  // Behind the first element there is no index for the end of a slice that goes backwards.
  const int64_t stop = step < 0 && end < 0 ? INT64_MIN : end;
  return node("Slice", {x, integers({begin}), integers({stop}), integers({axis}), integers({step})}, {}, x.type, shape);
}

Wire Emission::concat(const std::vector<Wire> &parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape;
  int64_t size = 0;
  for (const Wire &p : parts) size += p.dim(axis);
  shape.Set(axis, size);
  return node("Concat", parts, {{"axis", axis}}, parts[0].type, shape);
}

Wire Emission::gather(const Wire &x, const Wire &indices, int64_t axis) {
  std::vector<int64_t> dims(x.shape.begin(), x.shape.begin() + axis);
  dims.insert(dims.end(), indices.shape.begin(), indices.shape.end());
  dims.insert(dims.end(), x.shape.begin() + axis + 1, x.shape.end());
  return node("Gather", {x, indices}, {{"axis", axis}}, x.type, of(dims));
}

Wire Emission::matmul(const Wire &a, const Wire &b) {
  const auto batch = [](const Wire &x) { return Shape(x.shape.ptr(), x.rank() - 2); };
  const Shape outer = broadcast(batch(a), batch(b));
  std::vector<int64_t> dims(outer.begin(), outer.end());
  dims.insert(dims.end(), {a.dim(-2), b.dim(-1)});
  return node("MatMul", {a, b}, {}, a.type, of(dims));
}

Wire Emission::reduce(const std::string &type, const Wire &x, const std::vector<int64_t> &axes, bool keepDims) {
  if (axes.empty()) return x;
  std::vector<int64_t> dims;
  for (int64_t k = 0; k < x.rank(); ++k) {
    const bool isReduced = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (!isReduced || keepDims) dims.push_back(isReduced ? 1 : x.dim(k));
  }
  NodeAttrs attrs = {{"keepdims", keepDims}};
  std::vector<Wire> inputs = {x};
  if (opset >= 18 || type == "ReduceSum")
    inputs.push_back(integers(axes));
  else
    attrs.insert({"axes", axes});
  return node(type, inputs, attrs, x.type, of(dims));
}

Wire Emission::padded(const Wire &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after,
                      double value, const char *mode) {
  std::vector<int64_t> pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return x;
  Shape shape = x.shape;
  for (size_t k = 0; k < before.size(); ++k) {
    const auto axis = static_cast<int64_t>(k);
    shape.Set(axis, x.dim(axis) + before[k] + after[k]);
  }
  std::vector<Wire> inputs = {x, integers(pads)};
  if (std::string(mode) == "constant" && value != 0) inputs.push_back(number(x, value));
  return node("Pad", inputs, {{"mode", mode}}, x.type, shape);
}

Wire Emission::summedTo(const Wire &x, const Shape &shape) {
  std::vector<int64_t> axes;
  const int64_t more = x.rank() - shape.NumAxes();
  for (int64_t k = 0; k < x.rank(); ++k)
    if (k < more || shape.At(k - more) != x.dim(k)) axes.push_back(k);
  return reshape(reduce("ReduceSum", x, axes), shape);
}

// Results -------------------------------------------------------------------------------------------------------------

void Emission::bind(int flat, const Wire &value) {
  const auto &[arg, index] = instance.outputArgs().at(static_cast<size_t>(flat));
  const std::string &tensor = instance.wrapper().output(arg, index);
  const Wire &wanted = wires_.at(tensor);
  if (value.shape != wanted.shape)
    refuse("its form gives " + value.shape.ToString() + " for output " + tensor + ", which is " +
           wanted.shape.ToString());
  const Wire last = cast(value, wanted.type);
  const std::string before = nameOf(last);
  bound_.insert(flat);
  // The node that makes it is given the tensor's name, where it is one of the op's own that has no name in the graph.
  onnx::Graph &graph = nodes_.graph();
  std::string *made = nullptr;
  for (int n = first_; n < graph.node_size() && !names_.count(before); ++n)
    if (graph.node(n).op_type() != "Constant")
      for (std::string &name : *graph.mutable_node(n)->mutable_output())
        if (name == before) made = &name;
  names_.insert(wanted.name);
  if (!made) {
    onnx::Node *node = graph.add_node();
    node->set_op_type("Identity");
    node->add_input(before);
    node->add_output(wanted.name);
    return;
  }
  *made = wanted.name;
  for (int n = first_; n < graph.node_size(); ++n)
    for (std::string &name : *graph.mutable_node(n)->mutable_input())
      if (name == before) name = wanted.name;
  renamed_[before] = wanted.name;
}

const std::string &Emission::nameOf(const Wire &x) const {
  const auto it = renamed_.find(x.name);
  return it == renamed_.end() ? x.name : it->second;
}

void Emission::out(const std::string &arg, const Wire &value, int32_t index) {
  if (const int flat = instance.findOutput(arg, index); flat >= 0) bind(flat, value);
}

void Emission::out(const Wire &value) { bind(0, value); }

void Emission::next(const std::string &arg, const Wire &value) {
  if (!has(arg)) return;
  const std::string &tensor = instance.wrapper().input(arg, 0);
  const Wire last = cast(value, wires_.at(tensor).type);
  if (!next_.emplace(tensor, nameOf(last)).second) refuse("another op writes variable " + tensor + ", too");
}

void Emission::startAgain() {
  auto *nodes = nodes_.graph().mutable_node();
  for (int n = nodes->size() - 1; n >= first_; --n)
    if (nodes->Get(n).op_type() != "Constant") nodes->DeleteSubrange(n, 1);
  bound_.clear();
  names_.clear();
  renamed_.clear();
  casts_.clear();
}

std::vector<onnx::Node *> Emission::finish() {
  onnx::Graph &graph = nodes_.graph();
  for (size_t k = 0; k < instance.outputDescs().size(); ++k)
    if (!bound_.count(static_cast<int>(k))) refuse("nothing makes its output " + instance.outputArgs()[k].first);
  std::vector<onnx::Node *> own;
  for (int n = first_; n < graph.node_size(); ++n)
    if (graph.node(n).op_type() != "Constant") own.push_back(graph.mutable_node(n));
  std::string places = op.range.known() ? op.range.file + ":" + std::to_string(op.range.line) : "";
  if (!op.loc.empty()) places += (places.empty() ? "" : "; ") + op.loc;
  for (size_t k = 0; k < own.size(); ++k) {
    own[k]->set_name(printableName(own.size() == 1 ? op.name : op.name + "/" + std::to_string(k + 1)));
    if (!places.empty()) own[k]->set_doc_string(printableName(places));
  }
  return own;
}

} // namespace opc::onnx_export
