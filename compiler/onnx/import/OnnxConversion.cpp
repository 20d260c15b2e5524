// One node of an ONNX model on its way into opc's ops.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConversion.h"
#include "NearestNames.h"
#include "OnnxAttributes.h"
#include "OnnxNames.h"
#include "OnnxTensors.h"
#include "PrintableText.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace opc::onnx {
namespace {

const char *kindName(int kind) {
  static const char *const kNames[] = {"nothing", "a float",         "an integer",     "a string", "a tensor",
                                       "a graph", "floats",          "integers",       "strings",  "tensors",
                                       "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types"};
  return kind >= 0 && kind < 15 ? kNames[kind] : "something newer";
}

/// Old files leave the type out: what is there says it.
int kindOf(const Attribute &a) {
  if (a.type() != Attribute::UNDEFINED) return a.type();
  if (a.has_f()) return Attribute::FLOAT;
  if (a.has_i()) return Attribute::INT;
  if (a.has_s()) return Attribute::STRING;
  if (a.has_t()) return Attribute::TENSOR;
  if (a.has_g()) return Attribute::GRAPH;
  if (a.floats_size()) return Attribute::FLOATS;
  if (a.ints_size()) return Attribute::INTS;
  if (a.strings_size()) return Attribute::STRINGS;
  if (a.has_sparse_tensor()) return Attribute::SPARSE_TENSOR;
  return Attribute::UNDEFINED;
}

template <class T> std::vector<T> elements(const StoredTensor &value) {
  const OpTensor tensor = elementsOf(value);
  std::vector<T> list(static_cast<size_t>(tensor.elements()));
  for (size_t k = 0; k < list.size(); ++k) {
    const auto at = static_cast<int64_t>(k);
    if (tensor.type() == kInt64)
      list[k] = static_cast<T>(tensor.dptr<int64_t>()[k]);
    else if (tensor.type() == kUInt64) // which no f64 has beyond 2^53
      list[k] = static_cast<T>(tensor.dptr<uint64_t>()[k]);
    else
      list[k] = static_cast<T>(element(tensor, at));
  }
  return list;
}

/// "a, b or c".
std::string listed(const std::vector<std::string> &words) {
  std::string list;
  for (const std::string &word : words)
    if (!word.empty()) list += (list.empty() ? "" : &word == &words.back() ? " or " : ", ") + word;
  return list;
}

std::string exportWith(int64_t version) {
  return "export the model with opset_version=" + std::to_string(version) + " or a later one";
}

constexpr size_t kDecidingBytes = 1 << 20;

} // namespace

Term Conversion::any(size_t index) const {
  if (!has(index)) invalid(inputText(index) + " is missing");
  return inputs_[index];
}

Term Conversion::in(size_t index) const {
  const Term term = any(index);
  if (term->kind != Operand::Kind::kTensor)
    invalid(inputText(index) + " is " + (term->kind == Operand::Kind::kList ? "a sequence" : "an empty optional") +
            ", and must be a tensor");
  return term;
}

std::vector<Term> Conversion::all() const {
  std::vector<Term> list;
  for (size_t k = 0; k < inputs_.size(); ++k) list.push_back(in(k));
  if (list.empty()) invalid("it has no inputs");
  return list;
}

std::string Conversion::inputText(size_t index) const {
  std::string text = "input " + std::to_string(index);
  if (index < static_cast<size_t>(node.input_size())) text += " ('" + node.input(static_cast<int>(index)) + "')";
  return text;
}

void Conversion::checkInputs(const std::string &domain) const {
  const OpForm *form = formOf(domain, node.op_type());
  const std::optional<size_t> most = form ? mostIn(form->inputs, version) : std::nullopt;
  if (!most || inputs_.size() <= *most) return;
  const std::string in = form->inputs.size() > 1 ? " in operator set " + std::to_string(version) : "";
  const auto later = std::find_if(form->inputs.begin(), form->inputs.end(), [&](const auto &from) {
    return from.first > version && (!from.second || *from.second >= inputs_.size());
  });
  invalid(inputText(*most) + " is too many: the op has at most " + std::to_string(*most) +
              (*most == 1 ? " input" : " inputs") + in,
          later == form->inputs.end() ? "" : exportWith(later->first));
}

void Conversion::checkOutputs(const std::string &domain) const {
  const OpForm *form = formOf(domain, node.op_type());
  const std::optional<size_t> most = form ? mostIn(form->outputs, version) : std::nullopt;
  if (!most) return;
  for (int k = static_cast<int>(*most); k < node.output_size(); ++k)
    if (wants(k)) invalid(tooManyOutputs(node, k, *most));
}

void Conversion::checkVersion(const std::string &domain) const {
  const OpForm *form = formOf(domain, node.op_type());
  if (!form || !domain.empty() || form->versions.empty() || version >= form->versions.front()) return;
  invalid("the op exists from operator set " + std::to_string(form->versions.front()) + " on, and the node is of set " +
              std::to_string(version),
          exportWith(form->versions.front()));
}

void Conversion::checkAttributes(const std::string &domain) const {
  const OpForm *form = formOf(domain, node.op_type());
  if (!form) return;
  const auto &known = form->attributes;
  for (const auto &[name, value] : attributes_)
    if (!asked_.count(name) && std::find(known.begin(), known.end(), name) == known.end())
      invalid("it has no attribute '" + shown(name) + "'", didYouMeanAmong(name, known, "the op has no attributes"));
}

void Conversion::checkSet(const OpForm &form, const std::string &attribute) const {
  const auto known = form.sets.find(attribute);
  if (known == form.sets.end()) return;
  const auto [first, last] = known->second;
  const std::string here = ", and the node is of set " + std::to_string(version);
  if (version < first)
    invalid("attribute '" + attribute + "' is one of operator set " + std::to_string(first) + " on" + here,
            exportWith(first));
  if (version > last)
    invalid("attribute '" + attribute + "' is one of operator sets up to " + std::to_string(last) + here,
            "in the node's set the op has another form: export the model again");
}

void Conversion::checkValues(const std::string &domain) const {
  const OpForm *form = formOf(domain, node.op_type());
  if (!form) return;
  for (const auto &[name, attribute] : attributes_) {
    checkSet(*form, name);
    const auto known = form->values.find(name);
    if (known == form->values.end()) continue;
    const int kind = kindOf(*attribute);
    const bool isText = kind == Attribute::STRING;
    std::vector<std::string> found; // another kind is refused where the attribute is read
    if (isText) found.push_back(attribute->s());
    if (kind == Attribute::INT) found.push_back(std::to_string(attribute->i()));
    if (kind == Attribute::INTS)
      for (int64_t i : attribute->ints()) found.push_back(std::to_string(i));
    for (const std::string &value : found)
      if (std::find(known->second.begin(), known->second.end(), value) == known->second.end())
        invalid("attribute '" + name + "' is " + (isText ? "'" + printableName(value) + "'" : value) +
                ", and must be " + listed(known->second));
  }
}

void Conversion::checkType(size_t input, const std::vector<DataType> &types) const {
  const Term x = in(input);
  if (std::find(types.begin(), types.end(), x->type()) != types.end()) return;
  std::vector<std::string> names;
  for (DataType type : types) names.emplace_back(elementType(type).name);
  invalid(inputText(input) + " is " + x->desc.toString() + ", and must be of type " + listed(names));
}

void Conversion::checkShape(size_t input, const Shape &shape, const std::string &what) const {
  const Term x = in(input);
  if (x->shape() != shape)
    invalid(inputText(input) + " is " + x->desc.toString() + ", and " + what + " have shape " + shape.ToString());
}

Term Conversion::within(const Term &values, int64_t limit, size_t input) {
  std::vector<int64_t> places(static_cast<size_t>(limit));
  std::iota(places.begin(), places.end(), 0);
  return rows(constant(places, Shape({limit})), values, input);
}

void Conversion::checkPlaces(const Term &indices, int64_t limit, size_t input) const {
  if (!indices->value) return;
  for (int64_t k : knownInts(indices, inputText(input)))
    if (k < 0 || k >= limit)
      invalid(inputText(input) + " leads to place " + std::to_string(k) + ", and there are " + std::to_string(limit) +
              (limit == 1 ? " place" : " places"));
}

Term Conversion::rows(const Term &table, const Term &indices, size_t input) {
  checkPlaces(indices, table->dim(0), input);
  const GraphDraft::Part part(&draft, inputs_.size() > input ? node.input(static_cast<int>(input)) : "");
  return op("gather", {table, indices}, {{"axis", int64_t{0}}});
}

const Attribute *Conversion::attr(const std::string &name, Attribute::Kind kind) const {
  asked_.insert(name);
  const auto it = attributes_.find(name);
  if (it == attributes_.end()) return nullptr;
  const int found = kindOf(*it->second);
  const bool isEmptyList = found == Attribute::UNDEFINED;
  if (found != kind && !isEmptyList)
    invalid("attribute '" + name + "' is " + kindName(found) + ", and must be " + kindName(kind));
  return it->second;
}

int64_t Conversion::i(const std::string &name, int64_t otherwise) const {
  const Attribute *a = attr(name, Attribute::INT);
  return a ? a->i() : otherwise;
}

int64_t Conversion::required(const std::string &name) const {
  const Attribute *a = attr(name, Attribute::INT);
  if (!a) invalid("attribute '" + name + "' is missing");
  return a->i();
}

double Conversion::f(const std::string &name, double otherwise) const {
  const Attribute *a = attr(name, Attribute::FLOAT);
  return a ? static_cast<double>(a->f()) : otherwise;
}

std::string Conversion::s(const std::string &name, const std::string &otherwise) const {
  const Attribute *a = attr(name, Attribute::STRING);
  return a ? a->s() : otherwise;
}

std::optional<std::vector<int64_t>> Conversion::ints(const std::string &name) const {
  const Attribute *a = attr(name, Attribute::INTS);
  if (!a) return std::nullopt;
  return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

std::vector<int64_t> Conversion::ints(const std::string &name, std::vector<int64_t> otherwise) const {
  auto list = ints(name);
  return list ? *list : otherwise;
}

std::vector<double> Conversion::floats(const std::string &name) const {
  const Attribute *a = attr(name, Attribute::FLOATS);
  return a ? std::vector<double>(a->floats().begin(), a->floats().end()) : std::vector<double>();
}

std::vector<int64_t> Conversion::knownInts(const Term &term, const std::string &what) const {
  if (!term->value) throw Undecided{term, what};
  draft.rely(term);
  if (term->value->bytes.size() > kDecidingBytes) unsupported(what + " has " + term->desc.toString() + ": too many");
  return elements<int64_t>(*term->value);
}

std::vector<double> Conversion::knownFloats(const Term &term, const std::string &what) const {
  if (!term->value) throw Undecided{term, what};
  draft.rely(term);
  if (term->value->bytes.size() > kDecidingBytes) unsupported(what + " has " + term->desc.toString() + ": too many");
  return elements<double>(*term->value);
}

std::vector<double> Conversion::peeked(const Term &known) { return elements<double>(*known->value); }

void Conversion::checkOne(size_t input) const {
  if (in(input)->shape().elem_cnt() != 1)
    invalid(inputText(input) + " is " + in(input)->desc.toString() + ", and must be one number");
}

int64_t Conversion::knownInt(size_t input) const {
  checkOne(input);
  return knownInts(input)[0];
}

double Conversion::knownFloat(size_t input) const {
  checkOne(input);
  return knownFloats(input)[0];
}

void Conversion::checkStretches(size_t input, const Shape &shape) const {
  const Term x = in(input);
  bool fits = x->rank() <= shape.NumAxes();
  for (int64_t k = 1; fits && k <= x->rank(); ++k)
    fits = x->dim(-k) == 1 || x->dim(-k) == shape.At(shape.NumAxes() - k);
  if (!fits) invalid(inputText(input) + " is " + x->desc.toString() + ", and must broadcast to " + shape.ToString());
}

std::optional<std::vector<int64_t>> Conversion::axes(const std::string &name, int64_t since, size_t input) const {
  if (version < since) return ints(name);
  if (!has(input)) return std::nullopt;
  return knownInts(input);
}

Term Conversion::constant(DataType type, const Shape &shape, const std::vector<double> &values) const {
  OpTensor tensor(user_op::TensorDesc(shape, type));
  for (size_t k = 0; k < values.size(); ++k) setElement(&tensor, static_cast<int64_t>(k), values[k]);
  return GraphDraft::constant(storedOf(std::move(tensor)));
}

Term Conversion::constant(const std::vector<int64_t> &values, const Shape &shape, DataType type) const {
  OpTensor tensor(user_op::TensorDesc(shape, type));
  for (size_t k = 0; k < values.size(); ++k) {
    if (type == kInt64 || type == kUInt64) // of as many bits, which f64 does not have
      tensor.mut_dptr<int64_t>()[k] = values[k];
    else
      setElement(&tensor, static_cast<int64_t>(k), static_cast<double>(values[k]));
  }
  return GraphDraft::constant(storedOf(std::move(tensor)));
}

Term Conversion::reshape(const Term &x, const DimVector &dims) {
  if (x->shape().dim_vec() == dims) return x;
  return op("reshape", {x}, {{"shape", Shape(dims)}});
}

Term Conversion::transpose(const Term &x, const std::vector<int64_t> &perm) {
  bool isIdentity = true;
  for (size_t k = 0; k < perm.size(); ++k) isIdentity &= perm[k] == static_cast<int64_t>(k);
  return isIdentity ? x : op("transpose", {x}, {{"perm", perm}});
}

Term Conversion::toLast(const Term &x, int64_t from) {
  std::vector<int64_t> perm;
  for (int64_t k = 0; k < x->rank(); ++k)
    if (k != from) perm.push_back(k);
  perm.push_back(from);
  return transpose(x, perm);
}

Term Conversion::fromLast(const Term &x, int64_t to) {
  std::vector<int64_t> perm;
  for (int64_t k = 0; k + 1 < x->rank(); ++k) perm.push_back(k);
  perm.insert(perm.begin() + to, x->rank() - 1);
  return transpose(x, perm);
}

Term Conversion::slice(const Term &x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  std::vector<int64_t> start(static_cast<size_t>(x->rank()), 0), stop = x->shape().dim_vec(),
                                                                 steps(static_cast<size_t>(x->rank()), 1);
  const auto at = static_cast<size_t>(axis);
  if (begin == 0 && end == stop[at] && step == 1) return x;
  start[at] = begin, stop[at] = end, steps[at] = step;
  return op("slice", {x}, {{"start", start}, {"stop", stop}, {"step", steps}});
}

Term Conversion::scaled(const Term &x, double factor) {
  if (factor == 1) return x;
  return op("scalar_mul", {x}, {{"has_float_operand", true}, {"float_operand", factor}});
}

Term Conversion::plus(const Term &x, double addend) {
  if (addend == 0) return x;
  return op("scalar_add", {x}, {{"has_float_operand", true}, {"float_operand", addend}});
}

Term Conversion::cut(const Term &whole, int64_t axis, const Term &count) {
  if (!count->value) {
    draft.bind({whole, count, axis});
    return whole;
  }
  const int64_t n = knownInts(count, "its count")[0];
  DimVector dims = whole->shape().dim_vec();
  if (n == 0 && dims[static_cast<size_t>(axis)] > 0) {
    dims[static_cast<size_t>(axis)] = 0;
    return constant(whole->type(), Shape(dims), {});
  }
  return slice(whole, axis, 0, n);
}

Term Conversion::expand(const Term &x, const Shape &shape) {
  if (x->shape() == shape) return x;
  return op("expand", {x}, {{"expand_shape", shape}});
}

void Conversion::out(int index, const Term &term) {
  if (index < node.output_size()) results_[static_cast<size_t>(index)] = term;
}

void Conversion::invalid(const std::string &message, const std::string &help) const {
  throw Refusal{"OPC0322", message, help};
}

void Conversion::unsupported(const std::string &message, const std::string &help) const {
  throw Refusal{"OPC0422", message, help};
}

int64_t Conversion::axisOf(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    invalid("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> Conversion::axesOf(std::vector<int64_t> axes, int64_t rank) const {
  checkAxes(axes, rank);
  for (int64_t &a : axes) a = axisOf(a, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

void Conversion::checkAxes(const std::vector<int64_t> &axes, int64_t rank) const {
  std::set<int64_t> seen;
  for (int64_t a : axes)
    if (!seen.insert(axisOf(a, rank)).second) invalid("axis " + std::to_string(a) + " is given twice");
}

DataType Conversion::elementTypeOf(int64_t number) const {
  if (const DataType known = wire::fromOnnxType(number); known != kInvalidDataType) return known;
  unsupported("ONNX's element type " + std::to_string(number) + " is none of opc's");
}

std::string tooManyOutputs(const Node &node, int output, size_t most) {
  return "output " + std::to_string(output) + " ('" + shown(node.output(output)) + "') is too many: the op has " +
         (most == 0 ? "none" : "at most " + std::to_string(most) + (most == 1 ? " output" : " outputs"));
}

Shape broadcastShape(const Conversion &c, const std::vector<Shape> &shapes) {
  DimVector dims;
  for (const Shape &s : shapes) {
    const DimVector &own = s.dim_vec();
    if (own.size() > dims.size()) dims.insert(dims.begin(), own.size() - dims.size(), 1);
    const size_t skip = dims.size() - own.size();
    for (size_t k = 0; k < own.size(); ++k) {
      int64_t &d = dims[skip + k];
      if (d == 1)
        d = own[k];
      else if (own[k] != 1 && own[k] != d)
        c.invalid("shapes do not broadcast: " + Shape(dims).ToString() + " and " + s.ToString());
    }
  }
  return Shape(dims);
}

namespace {

bool isHalf(const Term &t) {
  return t && t->kind == Operand::Kind::kTensor && (t->type() == kFloat16 || t->type() == kBFloat16);
}

/// Whether windows of an AveragePool are sums that are divided: of dilated ones, and where pads are wide.
bool areSummed(const Conversion &c) {
  const std::vector<int64_t> kernel = c.ints("kernel_shape", {}), pads = c.ints("pads", {});
  const std::vector<int64_t> dilations = c.ints("dilations", {});
  bool isWide = false;
  for (size_t k = 0; k < pads.size() && !kernel.empty(); ++k) isWide |= pads[k] > kernel[k % kernel.size()] / 2;
  return isWide || std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
}

/// Ops of which several are made, whose results in between may be beyond half precision's range, or between its
/// numbers, where the op's own is not; and those that compare with a number of f32. What only moves elements is left
/// as it is.
bool isInF32(const Conversion &c) {
  using Is = bool (*)(const Conversion &);
  static const Is always = [](const Conversion &) { return true; };
  static const Is ofOneType = [](const Conversion &o) {
    for (size_t k = 1; k < o.inputCount(); ++k)
      if (o.has(k)) o.checkType(k, {o.in(0)->type()});
    return true;
  };
  static const Is scales = [](const Conversion &o) { return o.f("alpha", 1) != 1; };
  static const Is interpolates = [](const Conversion &o) { return o.s("mode", "nearest") != "nearest"; };
  static const std::map<std::string, Is> ops = {
      {"AveragePool", areSummed},
      {"BiasGelu", always},
      {"CausalConvWithState", [](const Conversion &o) { return o.s("activation", "none") != "none" && ofOneType(o); }},
      {"DeformConv", ofOneType},
      {"Det", always},
      {"FastGelu", [](const Conversion &o) { return o.has(1); }},
      {"FusedMatMul", scales},
      {"GlobalLpPool", always},
      {"GridSample", [](const Conversion &o) { return o.in(0)->rank() == 5; }},
      {"HardSigmoid", always},
      {"LRN", always},
      {"LpNormalization", always},
      {"LpPool", always},
      {"MaxRoiPool", always},
      {"Mean", always},
      {"MeanVarianceNormalization", always},
      {"NegativeLogLikelihoodLoss", always},
      {"QuickGelu", always},
      {"ReduceL1", always},
      {"ReduceL2", always},
      {"ReduceLogSum", always},
      {"ReduceSumSquare", always},
      {"Resize", interpolates},
      {"RotaryEmbedding", always},
      {"Selu", always},
      {"Shrink", always},
      {"SkipLayerNormalization", always},
      {"SkipSimplifiedLayerNormalization", always},
      {"SoftmaxCrossEntropyLoss", always},
      {"Sum", always},
      {"SwiGLU", ofOneType},
      {"Swish", scales},
      {"ThresholdedRelu", always},
      {"Upsample", interpolates}};
  const auto found = ops.find(c.node.op_type());
  return found != ops.end() && found->second(c);
}

void converted(Conversion &c, const std::function<void(Conversion &)> &convert) {
  if (!c.has(0) || !isHalf(c.any(0)) || !isInF32(c)) return convert(c);
  const DataType type = c.in(0)->type();
  for (size_t k = 0; k < c.inputCount(); ++k)
    if (c.has(k) && isHalf(c.any(k))) c.replace(k, c.cast(c.in(k), kFloat));
  convert(c);
  const std::vector<Term> made = c.results();
  for (size_t k = 0; k < made.size(); ++k)
    if (made[k] && made[k]->type() == kFloat) c.out(static_cast<int>(k), c.cast(made[k], type));
}

} // namespace

void ConverterTable::add(const std::string &op, std::function<void(Conversion &)> convert, const std::string &to,
                         const std::string &note, const std::string &domain) {
  auto whole = [convert = std::move(convert)](Conversion &c) { converted(c, convert); };
  const OpForm *form = formOf(domain, op);
  converters_[{domain, op}] =
      Converter{domain, op, form ? form->versions : std::vector<int64_t>{1}, std::move(whole), to, note};
}

const Converter *ConverterTable::find(const std::string &domain, const std::string &op) const {
  const auto it = converters_.find({domain, op});
  return it == converters_.end() ? nullptr : &it->second;
}

std::vector<const Converter *> ConverterTable::list() const {
  std::vector<const Converter *> all;
  for (const auto &[key, converter] : converters_) all.push_back(&converter);
  return all;
}

} // namespace opc::onnx
