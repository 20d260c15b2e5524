// Makes random graphs: picks an op, one of its cases and an element type, binds tensors that fit and new inputs.
// SPDX-License-Identifier: Apache-2.0
#include "RandomGraph.h"

#include "AttrWire.h"
#include "BuiltIn.h"
#include "MutableInputs.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <map>
#include <set>

namespace opc::fuzz {

using user_op::Case;
using user_op::CaseInput;
using user_op::OpConf;
using user_op::OpDef;
using user_op::TensorDesc;

namespace {

struct Candidate {
  const OpDef *op;
  const Case *sample;
  std::vector<DataType> types;
};

/// The element types in which the CPU has the op: those of its kernels, any where a kernel takes any.
std::vector<DataType> typesOf(const Registry &registry, const OpDef &op, const Case &c, bool floatingOnly) {
  static const std::vector<DataType> all = {kFloat, kDouble, kFloat16, kBFloat16, kInt8, kUInt8, kInt32, kInt64, kBool};
  std::set<DataType> types;
  bool any = op.isView;
  for (const user_op::KernelDef *k : registry.kernels(op.name)) {
    const KernelTarget target = kernelTarget(*k);
    if (!target.device.empty() && target.device != "cpu") continue;
    if (target.dtype.empty() || target.dtype == "any")
      any = true;
    else
      types.insert(parseDataType(target.dtype));
  }
  std::vector<DataType> result;
  for (DataType t : all) {
    if (!any && !types.count(t)) continue;
    if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), t) == c.types().end()) continue;
    if (floatingOnly && t != kFloat && t != kDouble) continue;
    result.push_back(t);
  }
  return result;
}

/// A graph under construction: what is in it, and how an op that fits gets in.
class Draft {
protected:
  Draft(const Registry &registry, uint64_t seed) : registry_(registry), random_(seed) {}

  uint64_t below(uint64_t n) { return n ? random_() % n : 0; }
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }

  static void bind(std::vector<user_op::ArgBinding> *bindings, const std::string &arg, const std::string &tensor) {
    for (auto &b : *bindings)
      if (b.name == arg) return b.tensors.push_back(tensor);
    bindings->push_back({arg, {tensor}});
  }

  std::string newInput(DataType type, const Shape &shape, double lo, double hi) {
    const std::string name = "in" + std::to_string(graph_.inputs.size());
    graph::OperatorConf *op = graph_.net.add_op();
    op->set_name(name);
    op->mutable_input_conf()->set_out("out");
    auto *blob = op->mutable_input_conf()->mutable_blob_conf();
    wire::toProto(shape, blob->mutable_shape());
    blob->set_data_type(static_cast<graph::DataTypeProto>(type));
    graph_.inputs.push_back({name, TensorDesc(shape, type), lo, hi});
    descs_[name + "/out"] = {graph_.inputs.back().desc, -1};
    return name + "/out";
  }

  /// A computed tensor of that type and shape, or "". Late ones are likelier: chains grow.
  std::string existing(DataType type, const Shape *shape) {
    std::vector<const RandomGraph::Tensor *> fitting;
    for (const auto &t : graph_.tensors)
      if (t.desc.data_type() == type && (!shape || t.desc.shape() == *shape)) fitting.push_back(&t);
    if (fitting.empty()) return "";
    const size_t a = below(fitting.size()), b = below(fitting.size());
    return fitting[std::max(a, b)]->name;
  }

  /// Checks an op as the compiler will, and adds it. False when its rule refuses these inputs or no kernel takes them.
  bool add(const OpDef &op, OpConf conf) {
    conf.name = "op" + std::to_string(made_);
    conf.type = op.name;
    if (!completeOpConf(op, &conf)) return false;
    OpInstance instance(op, conf);
    size_t n = 0;
    for (const auto &b : instance.conf().inputs)
      for (const std::string &t : b.tensors) instance.inputDescs()[n++] = descs_.at(t).first;
    if (!instance.infer()) return false;
    if (!op.isView && !instance.selectKernel(registry_, DeviceType::kCPU)) return false;
    int64_t elements = 0;
    for (const TensorDesc &d : instance.outputDescs()) elements += d.shape().elem_cnt();
    if (elements > 1 << 16) return false; // sums of large tensors would take the test's time and tell nothing more
    append(instance);
    history_.emplace_back(&op, instance.conf());
    ++made_;
    return true;
  }

  /// Takes back the inputs that a refused op had asked for.
  void dropInputs(size_t inputs, int ops) {
    while (graph_.inputs.size() > inputs) {
      descs_.erase(graph_.inputs.back().op + "/out");
      graph_.inputs.pop_back();
    }
    while (graph_.net.op_size() > ops) graph_.net.mutable_op()->RemoveLast();
  }

  const Registry &registry_;
  std::mt19937_64 random_;
  std::map<std::string, std::pair<TensorDesc, int>> descs_; // by tensor name; the index is -1 for inputs
  std::vector<std::pair<const OpDef *, OpConf>> history_;
  RandomGraph graph_;
  int made_ = 0;

private:
  /// Writes an op into the graph and remembers its outputs.
  void append(const OpInstance &instance) {
    graph::OperatorConf *out = graph_.net.add_op();
    out->set_name(instance.conf().name);
    auto *user = out->mutable_user_conf();
    user->set_op_type_name(instance.def().name);
    bool discontinuous = isStep(instance.def());
    DataType coarsest = kInvalidDataType;
    auto passesThrough = [&](DataType type) {
      if (IsFloatingDataType(type) &&
          (coarsest == kInvalidDataType || elementType(type).rtol > elementType(coarsest).rtol))
        coarsest = type;
    };
    for (const auto &b : instance.conf().inputs) {
      auto *entry = user->add_input();
      entry->set_key(b.name);
      for (const std::string &t : b.tensors) {
        entry->mutable_value()->add_s(t);
        passesThrough(descs_.at(t).first.data_type());
        if (int at = descs_.at(t).second; at >= 0) {
          passesThrough(graph_.tensors[static_cast<size_t>(at)].coarsest);
          ++graph_.tensors[static_cast<size_t>(at)].readers;
          discontinuous |= graph_.tensors[static_cast<size_t>(at)].discontinuous;
        }
      }
    }
    for (const auto &a : instance.conf().attrs) {
      auto *entry = user->add_attr();
      entry->set_key(a.first);
      wire::toProto(a.second, entry->mutable_value());
    }
    size_t n = 0;
    for (const auto &b : instance.conf().outputs) {
      auto *entry = user->add_output();
      entry->set_key(b.name);
      for (const std::string &t : b.tensors) {
        entry->mutable_value()->add_s(t);
        passesThrough(instance.outputDescs()[n].data_type());
        graph_.tensors.push_back({t, instance.outputDescs()[n++], 0, discontinuous, coarsest});
        descs_[t] = {graph_.tensors.back().desc, static_cast<int>(graph_.tensors.size() - 1)};
      }
    }
  }

  /// Whether a change in the last bit of an input may change the output by more than that.
  static bool isStep(const OpDef &op) {
    static const char *const smooth[] = {"conv",     "normalization", "norm",    "pool",      "relu", "sigmoid",
                                         "tanh",     "silu",          "add",     "mul",       "sub",  "upsample",
                                         "concat",   "cat",           "reshape", "transpose", "gelu", "clip",
                                         "hardtanh", "softplus",      "matmul",  "mish",      "bias"};
    for (const char *s : smooth)
      if (op.name.find(s) != std::string::npos) return false;
    return true;
  }
};

/// Picks what comes next.
class Maker : Draft {
public:
  Maker(const Registry &registry, uint64_t seed, const RandomGraphOptions &options)
      : Draft(registry, seed), options_(options) {}

  RandomGraph make() {
    collectCandidates();
    const int wanted =
        options_.minOps + static_cast<int>(below(static_cast<uint64_t>(options_.maxOps - options_.minOps + 1)));
    if (options_.images) firstImage();
    for (int tries = 0; made_ < wanted && tries < wanted * 20; ++tries) {
      if (options_.images && below(8) != 0)
        addImageOp();
      else if (made_ > 0 && below(10) == 0)
        repeatOp();
      else if (made_ > 0 && below(6) == 0)
        adapt();
      else
        addFromCases();
    }
    for (size_t i = 0; i < graph_.tensors.size(); ++i)
      if (graph_.tensors[i].readers == 0 ? below(8) != 0 : below(6) == 0) graph_.outputs.push_back(i);
    if (graph_.outputs.empty()) graph_.outputs.push_back(graph_.tensors.size() - 1);
    return std::move(graph_);
  }

private:
  void collectCandidates() {
    for (const OpDef *op : registry_.ops()) {
      if (!isBuiltIn(op->origin)) continue;
      if (options_.differentiable && (op->noGrad || !(registry_.findGrad(op->name) || op->scalar))) continue;
      std::vector<Candidate> cases;
      for (const Case &c : op->cases) {
        OpConf conf;
        conf.name = "probe";
        conf.type = op->name;
        for (const CaseInput &i : c.inputs()) bind(&conf.inputs, i.arg, "probe/x");
        for (const auto &a : c.attrs()) conf.attrs[a.first] = a.second;
        if (!completeOpConf(*op, &conf) || writesInputs(*op, conf)) continue;
        std::vector<DataType> types = typesOf(registry_, *op, c, options_.differentiable || options_.images);
        bool varies = false;
        for (const CaseInput &i : c.inputs()) varies |= i.type == kInvalidDataType;
        if (!varies) types = {kFloat};
        if (!types.empty()) cases.push_back({op, &c, std::move(types)});
      }
      if (!cases.empty()) candidates_.push_back(std::move(cases));
    }
  }

  void addFromCases() {
    // Of a few random cases, the one that can use most of what is there.
    const Candidate *best = nullptr;
    DataType bestType = kFloat;
    int bestFits = -1;
    for (int k = 0; k < 6; ++k) {
      const auto &cases = candidates_[below(candidates_.size())];
      const Candidate &c = cases[below(cases.size())];
      const DataType type = c.types[below(c.types.size())];
      int fits = 0;
      for (const CaseInput &i : c.sample->inputs())
        fits += !existing(i.type == kInvalidDataType ? type : i.type, c.op->scalar ? nullptr : &i.shape).empty();
      if (fits > bestFits) {
        bestFits = fits;
        best = &c;
        bestType = type;
      }
    }
    OpConf conf;
    for (const auto &a : best->sample->attrs()) conf.attrs[a.first] = a.second;
    for (const auto &o : best->sample->outputs())
      for (int k = 0; k < o.second; ++k)
        bind(&conf.outputs, o.first, "op" + std::to_string(made_) + "/" + o.first + "_" + std::to_string(k));
    // An elementwise op takes any shape: that of the first tensor it finds.
    const Shape *whole = nullptr;
    Shape chosenShape;
    size_t inputsBefore = graph_.inputs.size();
    const int opsBefore = graph_.net.op_size();
    for (const CaseInput &i : best->sample->inputs()) {
      const DataType type = i.type == kInvalidDataType ? bestType : i.type;
      const bool mayChain = IsFloatingDataType(type) ||
                            (best->op->scalar && type != kBool && i.type == kInvalidDataType) || (type == kBool);
      const Shape &shape = whole ? *whole : i.shape;
      std::string tensor;
      if (mayChain && chance(75)) tensor = existing(type, best->op->scalar && !whole ? nullptr : &shape);
      // Derivatives by two operands that are one tensor may cancel: what is left then is rounding.
      if (options_.differentiable && reads(conf, tensor)) tensor.clear();
      if (!tensor.empty() && best->op->scalar && !whole) {
        chosenShape = descs_.at(tensor).first.shape();
        whole = &chosenShape;
      }
      if (tensor.empty()) tensor = newInput(type, shape, i.lo, i.hi);
      bind(&conf.inputs, i.arg, tensor);
    }
    if (!add(*best->op, std::move(conf))) dropInputs(inputsBefore, opsBefore);
  }

  static bool reads(const OpConf &conf, const std::string &tensor) {
    return std::any_of(conf.inputs.begin(), conf.inputs.end(), [&](const auto &b) {
      return std::find(b.tensors.begin(), b.tensors.end(), tensor) != b.tensors.end();
    });
  }

  /// The same op again, on the same inputs: food for common subexpression elimination.
  void repeatOp() {
    auto [op, conf] = history_[below(history_.size())];
    for (auto &b : conf.outputs)
      for (size_t k = 0; k < b.tensors.size(); ++k)
        b.tensors[k] = "op" + std::to_string(made_) + "/" + b.name + "_" + std::to_string(k);
    add(*op, conf);
  }

  /// A view, a cast or a transposition of what is there, so that more ops find something that fits.
  void adapt() {
    const auto &t = graph_.tensors[below(graph_.tensors.size())];
    const Shape shape = t.desc.shape();
    OpConf conf;
    const char *type = "reshape";
    switch (below(4)) {
    case 0: { // cast among floats, or from a float to itself
      if (!IsFloatingDataType(t.desc.data_type())) return;
      static const DataType floats[] = {kFloat, kDouble, kFloat16, kBFloat16};
      type = "cast";
      conf.attrs["dtype"] = AttrValue(floats[below(options_.differentiable || options_.images ? 2 : 4)]);
      conf.inputs = {{"in", {t.name}}};
      break;
    }
    case 1: {
      if (shape.NumAxes() < 2) return;
      std::vector<int32_t> perm;
      for (int32_t i = 0; i < shape.NumAxes(); ++i) perm.push_back(i);
      std::shuffle(perm.begin(), perm.end(), random_);
      type = "transpose";
      conf.attrs["perm"] = AttrValue(perm);
      conf.inputs = {{"input", {t.name}}};
      break;
    }
    default: { // the shape of a case's input with as many elements, or flat
      std::vector<Shape> shapes = {Shape{shape.elem_cnt()}};
      for (const auto &cases : candidates_)
        for (const Candidate &c : cases)
          for (const CaseInput &i : c.sample->inputs())
            if (i.shape.elem_cnt() == shape.elem_cnt()) shapes.push_back(i.shape);
      conf.attrs["shape"] = AttrValue(shapes[below(shapes.size())]);
      conf.inputs = {{"in", {t.name}}};
    }
    }
    if (const OpDef *op = registry_.findOp(type)) add(*op, std::move(conf));
  }

  void firstImage() {
    const auto side = static_cast<int64_t>(4 + below(6));
    const std::string in = newInput(
        kFloat, Shape{static_cast<int64_t>(1 + below(2)), static_cast<int64_t>(1 + below(5)), side, side + 1}, -1, 1);
    OpConf conf;
    conf.inputs = {{"x", {in}}};
    add(*registry_.findOp("tanh"), std::move(conf));
  }

  /// A parameter: an input for the test's purposes.
  std::string parameter(const Shape &shape, double lo, double hi) { return newInput(kFloat, shape, lo, hi); }

  void convolution(const std::string &x, const Shape &s, OpConf *out) {
    OpConf &conf = *out;
    const int64_t channels = s.At(1);
    const bool depthwise = chance(25);
    const int64_t groups = depthwise ? channels : 1,
                  filters = depthwise ? channels : static_cast<int64_t>(1 + below(8));
    const auto kernel = static_cast<int64_t>(1 + 2 * below(2)), pad = chance(70) ? kernel / 2 : 0;
    const auto stride = static_cast<int32_t>(chance(80) ? 1 : 2), dilation = static_cast<int32_t>(chance(85) ? 1 : 2);
    conf.inputs = {{"in", {x}}, {"weight", {parameter(Shape{filters, channels / groups, kernel, kernel}, -0.5, 0.5)}}};
    if (chance(50)) conf.inputs.push_back({"bias", {parameter(Shape{filters}, -1, 1)}});
    if (!depthwise && chance(20)) { // the image read as channels_last, whatever it was made as
      conf.attrs["data_format"] = AttrValue(std::string("channels_last"));
      conf.inputs[1].tensors = {parameter(Shape{filters, kernel, kernel, s.At(3)}, -0.5, 0.5)};
    }
    conf.attrs["groups"] = AttrValue(static_cast<int32_t>(groups));
    conf.attrs["padding_before"] = AttrValue(std::vector<int32_t>(2, static_cast<int32_t>(pad * dilation)));
    conf.attrs["strides"] = AttrValue(std::vector<int32_t>(2, stride));
    conf.attrs["dilation_rate"] = AttrValue(std::vector<int32_t>(2, dilation));
  }
  void normalization(const std::string &x, const Shape &s, OpConf *out) {
    OpConf &conf = *out;
    const Shape vector{s.At(1)};
    conf.inputs = {{"x", {x}},
                   {"moving_mean", {parameter(vector, -1, 1)}},
                   {"moving_variance", {parameter(vector, 0.25, 2)}},
                   {"gamma", {parameter(vector, 0.5, 1.5)}},
                   {"beta", {parameter(vector, -1, 1)}}};
    conf.attrs["axis"] = AttrValue(int32_t{1});
    conf.attrs["epsilon"] = AttrValue(1e-5f);
    if (chance(30))
      if (std::string other = existing(kFloat, &s); !other.empty()) conf.inputs.push_back({"_add_to_output", {other}});
  }

  void addImageOp() {
    std::vector<size_t> images;
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const auto &d = graph_.tensors[i].desc;
      if (d.data_type() == kFloat && d.shape().NumAxes() == 4 && d.shape().elem_cnt() > 0) images.push_back(i);
    }
    if (images.empty()) return firstImage();
    // Mostly the last image: fusion wants chains.
    const auto &image = graph_.tensors[chance(70) ? images.back() : images[below(images.size())]];
    const std::string x = image.name;
    const Shape s = image.desc.shape();
    const Shape vector{s.At(1)};
    const size_t inputsBefore = graph_.inputs.size();
    const int opsBefore = graph_.net.op_size();
    OpConf conf;
    const char *type = "relu";
    conf.inputs = {{"x", {x}}};
    switch (below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      type = "conv2d";
      convolution(x, s, &conf);
      break;
    case 4:
    case 5:
      type = "normalization";
      normalization(x, s, &conf);
      break;
    case 6:
      type = "broadcast_add";
      conf.inputs = {{"x", {x}}, {"y", {existing(kFloat, &s)}}};
      if (chance(50)) std::swap(conf.inputs[0].tensors, conf.inputs[1].tensors);
      break;
    case 7:
      type = chance(50) ? "max_pool_2d" : "avg_pool_2d";
      conf.attrs["kernel_size"] = AttrValue(std::vector<int32_t>{2, 2});
      conf.attrs["stride"] = AttrValue(std::vector<int32_t>{1, 1});
      conf.attrs["padding"] = AttrValue(std::vector<int32_t>(2, static_cast<int32_t>(below(2))));
      break;
    case 8:
      type = "bias_add";
      conf.inputs = {{"a", {x}}, {"b", {parameter(vector, -1, 1)}}};
      conf.attrs["axis"] = AttrValue(int32_t{1});
      break;
    case 9:
      type = "hardtanh";
      conf.inputs = {{"in", {x}}};
      if (const OpDef *op = registry_.findOp(type)) conf.inputs[0].name = op->inputs[0].name;
      conf.attrs["min_val"] = AttrValue(-0.75);
      conf.attrs["max_val"] = AttrValue(0.5);
      break;
    default: {
      static const char *const unary[] = {"relu", "sigmoid", "tanh", "silu", "relu"};
      type = unary[below(5)];
    }
    }
    const OpDef *op = registry_.findOp(type);
    if (op && conf.inputs.size() == 1) conf.inputs[0].name = op->inputs[0].name;
    if (!op || !add(*op, std::move(conf))) dropInputs(inputsBefore, opsBefore);
  }

  const RandomGraphOptions options_;
  std::vector<std::vector<Candidate>> candidates_;
};

} // namespace

std::string RandomGraph::text(bool everything) const {
  graph::DLNetConf full = net;
  auto output = [&](size_t tensor) {
    graph::OperatorConf *op = full.add_op();
    op->set_name("o" + std::to_string(tensor));
    op->mutable_output_conf()->set_in(tensors[tensor].name);
    op->mutable_output_conf()->set_out("out");
  };
  if (everything)
    for (size_t i = 0; i < tensors.size(); ++i) output(i);
  else
    for (size_t i : outputs) output(i);
  std::string text;
  google::protobuf::TextFormat::PrintToString(full, &text);
  return text;
}

RandomGraph makeRandomGraph(const Registry &registry, uint64_t seed, const RandomGraphOptions &options) {
  return Maker(registry, seed, options).make();
}

} // namespace opc::fuzz
