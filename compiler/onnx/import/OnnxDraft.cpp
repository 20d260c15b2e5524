// A graph of opc's ops while it is made from an ONNX model.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxDraft.h"
#include "AttrWire.h"
#include "ModelNumber.h"
#include "PrintableText.h"
#include "Registry.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <unordered_set>

namespace opc::onnx {
namespace {

using user_op::ArgBinding;
using user_op::ArgDef;
using user_op::OpConf;
using user_op::OpDef;

/// A value as the op's definition has its attributes: converters write all integers as i64, all floats as f64.
AttrValue coerced(const AttrValue &value, AttrType type) {
  if (const auto *i = value.get<int64_t>()) {
    if (type == kAtInt32) return AttrValue(static_cast<int32_t>(*i));
    if (type == kAtBool) return AttrValue(*i != 0);
  }
  if (const auto *f = value.get<double>(); f && type == kAtFloat) return AttrValue(static_cast<float>(*f));
  if (const auto *list = value.get<std::vector<int64_t>>()) {
    if (type == kAtListInt32) return AttrValue(std::vector<int32_t>(list->begin(), list->end()));
    if (type == kAtShape) return AttrValue(Shape(*list));
  }
  return value;
}

std::string describe(const std::vector<Term> &inputs) {
  std::string text;
  for (const Term &t : inputs)
    if (t) text += (text.empty() ? "" : ", ") + t->desc.toString();
  return text;
}

/// The operands for the arguments of the definition, in order; a variadic argument takes what the others leave.
std::vector<ArgBinding> bindInputs(const OpDef &def, const std::vector<Term> &inputs, std::vector<Term> *bound) {
  std::vector<ArgBinding> bindings;
  size_t next = 0, fixed = 0;
  for (const ArgDef &arg : def.inputs) fixed += arg.atLeast ? 0 : static_cast<size_t>(arg.count);
  for (const ArgDef &arg : def.inputs) {
    const size_t count = arg.atLeast ? inputs.size() - std::min(fixed, inputs.size()) : static_cast<size_t>(arg.count);
    ArgBinding binding{arg.name, {}};
    for (size_t i = 0; i < count && next < inputs.size(); ++i, ++next) {
      if (!inputs[next]) continue;
      binding.tensors.push_back(std::to_string(next));
      bound->push_back(inputs[next]);
    }
    if (!binding.tensors.empty()) bindings.push_back(std::move(binding));
  }
  return bindings;
}

// What is computed from small weights is known beside the op that computes it: sizes and scales are.
constexpr int64_t kKnownBytes = 1 << 10;

Term operand(user_op::TensorDesc desc, int op, int output) {
  auto made = std::make_shared<Operand>();
  made->desc = std::move(desc);
  made->op = op;
  made->output = output;
  return made;
}

} // namespace

std::string NodePlace::file() const { return std::filesystem::path(model).filename().string(); }

OpTensor elementsOf(const StoredTensor &value) {
  OpTensor tensor(value.desc);
  if (tensor.bytes()) std::memcpy(tensor.data(), value.bytes.data(), tensor.bytes());
  return tensor;
}

StoredTensor storedOf(OpTensor tensor) {
  const auto kept = std::make_shared<const OpTensor>(std::move(tensor));
  return {kept->desc(), {kept->dptr(), kept->bytes()}, kept};
}

void GraphDraft::enterNode(NodePlace place, std::string name) {
  places_.push_back(std::move(place));
  names_.push_back(std::move(name));
  ++made_;
}

GraphDraft::Part::Part(GraphDraft *draft, const std::string &name) : draft_(draft), whole_(draft->names_.back()) {
  draft->places_.push_back(draft->places_.back());
  draft->names_.push_back(whole_.size() + name.size() < 200 ? printableName(whole_ + "/" + name) : whole_);
}

GraphDraft::Part::~Part() {
  draft_->places_.push_back(draft_->places_.back());
  draft_->names_.push_back(whole_);
}

GraphDraft::Visit::~Visit() {
  draft_->places_.push_back(std::move(place_));
  draft_->names_.push_back(std::move(name_));
}

Term GraphDraft::input(const std::string &name, const user_op::TensorDesc &desc) {
  sources_.insert(name);
  DraftOp op{OpKind::kInput, {}, {}, {desc}, {}, {}, false, places_.size() - 1};
  op.conf.name = name;
  ops_.push_back(std::move(op));
  return operand(desc, static_cast<int>(ops_.size()) - 1, 0);
}

Term GraphDraft::variable(const std::string &name, StoredTensor value, bool trainable) {
  sources_.insert(name);
  DraftOp op{OpKind::kVariable, {}, {}, {value.desc}, {}, value, trainable, places_.size() - 1};
  op.conf.name = name;
  ops_.push_back(std::move(op));
  auto made = std::make_shared<Operand>();
  made->desc = value.desc;
  made->value = std::move(value);
  made->op = static_cast<int>(ops_.size()) - 1;
  return made;
}

Term GraphDraft::untrained(const Term &term) {
  if (!term || term->op < 0 || !ops_[static_cast<size_t>(term->op)].trainable) return term;
  Term &known = untrained_[term->op];
  if (known) return known;
  DraftOp op = ops_[static_cast<size_t>(term->op)];
  op.trainable = false, op.trainedOne = term->op, op.beside = op.conf.name;
  do op.beside += ".state";
  while (sources_.count(op.beside));
  auto made = std::make_shared<Operand>(*term);
  made->op = static_cast<int>(ops_.size());
  ops_.push_back(std::move(op));
  return known = made;
}

/// The model's name is that of the parameter, where there is one.
std::string GraphDraft::nameOf(const DraftOp &op, bool isTrainedToo) {
  return op.trainedOne >= 0 && isTrainedToo ? op.beside : op.conf.name;
}

Term GraphDraft::constant(StoredTensor value) {
  auto made = std::make_shared<Operand>();
  made->desc = value.desc;
  made->value = std::move(value);
  made->isFixed = true;
  return made;
}

Term GraphDraft::parameter(const user_op::TensorDesc &desc) {
  ops_.push_back({OpKind::kParameter, {}, {}, {desc}, {}, {}, false, places_.size() - 1});
  return operand(desc, static_cast<int>(ops_.size()) - 1, 0);
}

bool GraphDraft::fold(const OpInstance &instance, const std::vector<Term> &inputs, std::vector<Term> *results) const {
  int64_t from = 0;
  bool isFixed = true;
  std::vector<std::string_view> operands;
  std::set<const Operand *>
      counted; // what is read twice gives no room for twice its bytes: that would double again and again
  for (const Term &t : inputs) {
    if (!t->value) return false;
    if (counted.insert(t.get()).second) from += static_cast<int64_t>(t->value->bytes.size());
    isFixed &= t->isFixed;
    operands.push_back(t->value->bytes);
  }
  auto computed =
      foldOp(registry_, instance, operands, isFixed ? std::max(kMostFoldedBytes, from) : kKnownBytes - from);
  if (!computed) return false;
  for (OpTensor &t : *computed) {
    auto known = std::make_shared<Operand>();
    known->desc = t.desc();
    known->value = storedOf(std::move(t));
    known->isFixed = isFixed;
    results->push_back(known);
  }
  return true;
}

std::vector<Term> GraphDraft::add(const std::string &type, const std::vector<Term> &inputs, const Attrs &attrs,
                                  const std::map<std::string, int32_t> &outputs) {
  if (++made_ > kMostOps) throw Refusal{"", "", ""}; // the import says it
  const OpDef *def = registry_.findOp(type);
  if (!def) throw Refusal{"OPC0901", "a converter names the op " + type + ", which opc does not have", ""};
  for (const Term &t : inputs)
    if (t && !readsBounds_ && bounded(t))
      throw Refusal{"OPC0422",
                    "it reads a tensor of which only the run knows how much there is, " + t->desc.toString() +
                        " at most",
                    "make the input that decides it a constant: --const NAME=VALUE"};
  DraftOp op{OpKind::kUser, {}, {}, {}, {}, {}, false, places_.size() - 1};
  op.conf.name = "op";
  op.conf.type = def->name;
  for (const auto &[name, value] : attrs) {
    const user_op::AttrDef *attr = def->findAttr(name);
    op.conf.attrs[name] = attr ? coerced(value, attr->type) : value;
  }
  op.conf.inputs = bindInputs(*def, inputs, &op.inputs);
  for (const auto &[arg, count] : outputs) {
    ArgBinding &b = op.conf.outputs.emplace_back(ArgBinding{arg, {}});
    for (int32_t i = 0; i < count; ++i) b.tensors.push_back("op/" + arg + "_" + std::to_string(i));
  }
  const auto refuse = [&](const Status &s) {
    throw Refusal{s.code() == StatusCode::kUnsupported ? "OPC0422" : "OPC0322",
                  type + " on (" + describe(op.inputs) + "): " + s.message(), s.help()};
  };
  if (Status s = completeOpConf(*def, &op.conf); !s) refuse(s);
  OpInstance instance(*def, op.conf);
  for (size_t i = 0; i < op.inputs.size(); ++i) instance.inputDescs()[i] = op.inputs[i]->desc;
  if (Status s = instance.infer(); !s) refuse(s);
  op.outputs = instance.outputDescs();
  std::vector<Term> results;
  const bool isKnown = fold(instance, op.inputs, &results);
  if (isKnown && (results.empty() || results[0]->isFixed)) return results;
  const int index = static_cast<int>(ops_.size());
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    auto made = std::make_shared<Operand>();
    made->desc = op.outputs[i];
    if (isKnown) made->value = results[i]->value;
    made->op = index;
    made->output = static_cast<int>(i);
    if (isKnown)
      results[i] = made;
    else
      results.push_back(made);
  }
  op.tensors.resize(op.outputs.size());
  ops_.push_back(std::move(op));
  return results;
}

void GraphDraft::noteRead(const Term &term) {
  if (!term) return;
  if (const auto found = fixed_.find(term.get()); found != fixed_.end())
    numbers_.try_emplace(found->second, Number{*term->value, places_.back()});
  for (const Term &element : term->list) noteRead(element);
}

void GraphDraft::rely(const Term &term) {
  if (!term || term->isFixed) return;
  dependencies(term, [&](const DraftOp &op) {
    if (op.kind == OpKind::kVariable) numbers_.try_emplace(op.conf.name, Number{*op.value, places_.back()});
  });
}

void GraphDraft::dependencies(const Term &term, const std::function<void(const DraftOp &)> &visit) const {
  std::unordered_set<int> seen;
  std::vector<int> open;
  std::function<void(const Term &)> add = [&](const Term &t) {
    for (const Term &element : t->list) add(element);
    if (t->op >= 0 && seen.insert(t->op).second) open.push_back(t->op);
  };
  add(term);
  while (!open.empty()) {
    const DraftOp &op = ops_[static_cast<size_t>(open.back())];
    open.pop_back();
    visit(op);
    for (const Term &t : op.inputs) add(t);
  }
}

Term GraphDraft::whole(const Term &term) {
  if (!term || !isNarrow(term)) return term;
  return add("cast", {term}, {{"dtype", narrow_.at(term.get())}})[0];
}

std::vector<std::string> GraphDraft::inputsOf(const Term &term) const {
  std::vector<std::string> found;
  dependencies(term, [&](const DraftOp &op) {
    if (op.kind == OpKind::kInput) found.push_back(op.conf.name);
  });
  std::sort(found.begin(), found.end());
  return found;
}

bool GraphDraft::isOfParameter(const Term &term) const {
  bool found = false;
  dependencies(term, [&](const DraftOp &op) { found |= op.kind == OpKind::kParameter; });
  return found;
}

void GraphDraft::name(const Term &term, const std::string &name) {
  if (!term || term->op < 0) return;
  DraftOp &op = ops_[static_cast<size_t>(term->op)];
  if (op.kind != OpKind::kUser) return;
  std::string &tensor = op.tensors[static_cast<size_t>(term->output)];
  if (tensor.empty()) tensor = name;
}

std::vector<bool> GraphDraft::needed(const std::vector<std::pair<std::string, Term>> &outputs) const {
  std::vector<bool> is(ops_.size(), false);
  for (size_t i = 0; i < is.size(); ++i) is[i] = ops_[i].kind == OpKind::kInput;
  for (const auto &[name, term] : outputs)
    if (term->op >= 0) is[static_cast<size_t>(term->op)] = true;
  for (size_t i = is.size(); i-- > 0;) // ops stand behind what they read
    if (is[i])
      for (const Term &t : ops_[i].inputs)
        if (t->op >= 0) is[static_cast<size_t>(t->op)] = true;
  return is;
}

/// The draft as the messages of a graph file.
class GraphDraft::Writer {
public:
  Writer(const GraphDraft &draft, GraphFile *file) : draft_(draft), file_(file) {}

  void run(const std::vector<std::pair<std::string, Term>> &outputs) {
    isNeeded_ = draft_.needed(outputs);
    for (const auto &[name, term] : outputs) reserved_.insert(name);
    for (size_t i = 0; i < draft_.ops_.size(); ++i) {
      if (!isNeeded_[i]) continue;
      const DraftOp &op = draft_.ops_[i];
      modelNames_.insert(op.tensors.begin(), op.tensors.end());
      if (op.kind == OpKind::kUser) continue;
      reserved_.insert(nameOf(op));
      tensorNames_.insert(nameOf(op) + "/out");
    }
    tensors_.resize(draft_.ops_.size());
    std::unordered_set<std::string> ports;
    for (size_t i = 0; i < draft_.ops_.size(); ++i) {
      if (!isNeeded_[i]) continue;
      const DraftOp &op = draft_.ops_[i];
      if (op.kind == OpKind::kUser) {
        user(i);
        continue;
      }
      ports.insert(nameOf(op));
      source(op, nameOf(op));
      tensors_[i] = {nameOf(op) + "/out"};
    }
    for (const auto &[name, number] : draft_.numbers_)
      *file_->job->mutable_net()->add_model_number() =
          modelNumber(name, number.value.desc, number.value.bytes,
                      number.reader.node.empty() ? "" : number.reader.file() + ": " + number.reader.node);
    for (const auto &[name, term] : outputs) {
      const std::string in = tensorOf(term);
      // A graph input that is an output, too: opc's names are unique.
      const std::string own = ports.insert(name).second ? name : unique(name);
      wire::makeOutput(in, next(own, {}));
    }
  }

private:
  std::string nameOf(const DraftOp &op) const {
    return GraphDraft::nameOf(op, op.trainedOne >= 0 && isNeeded_[static_cast<size_t>(op.trainedOne)]);
  }

  std::string unique(const std::string &name) {
    std::string candidate = name;
    while (!reserved_.insert(candidate).second) candidate = name + "_" + std::to_string(++numbers_[name] + 1);
    return candidate;
  }

  graph::OperatorConf *next(const std::string &name, const NodePlace &place) {
    file_->opRanges.push_back({place.node.empty() ? file_->name : place.text(), 0, 0, 0, 0});
    auto *conf = wire::addOp(file_->job->mutable_net(), name, place.node.empty() ? "" : place.text());
    if (!place.node.empty()) {
      conf->mutable_place()->set_file(place.file());
      conf->mutable_place()->set_node(place.node);
    }
    return conf;
  }

  void source(const DraftOp &op, const std::string &name) {
    auto *conf = next(name, draft_.places_[op.place]);
    if (op.kind == OpKind::kInput)
      wire::toProto(op.outputs[0], conf->mutable_input_conf());
    else
      variable(conf, *op.value, op.trainable);
  }

  void variable(graph::OperatorConf *conf, const StoredTensor &value, bool trainable) {
    auto *own = conf->mutable_variable_conf();
    wire::toProto(value.desc, own);
    own->set_trainable(trainable);
    if (value.bytes.empty()) own->mutable_initializer()->mutable_empty_conf();
    file_->values[conf->name()] = value;
  }

  /// The name of a value's tensor. A constant becomes an op when somebody first reads it.
  std::string tensorOf(const Term &term) {
    if (term->op >= 0) return tensors_[static_cast<size_t>(term->op)][static_cast<size_t>(term->output)];
    std::string &tensor = constants_[term.get()];
    if (!tensor.empty()) return tensor;
    std::string name = unique("constant");
    while (modelNames_.count(name + "/out")) name = unique("constant");
    variable(next(name, {}), *term->value, false);
    if (!term->value->bytes.empty()) file_->constants.insert(name);
    return tensor = name + "/out";
  }

  void user(size_t index) {
    const DraftOp &op = draft_.ops_[index];
    std::vector<std::string> reads;
    for (const Term &t : op.inputs) reads.push_back(tensorOf(t));
    OpConf made = op.conf;
    made.name = unique(draft_.names_[op.place].empty() ? op.conf.type : draft_.names_[op.place]);
    size_t flat = 0;
    for (ArgBinding &b : made.inputs)
      for (std::string &tensor : b.tensors) tensor = reads[flat++];
    flat = 0;
    for (ArgBinding &b : made.outputs)
      for (size_t i = 0; i < b.tensors.size(); ++i, ++flat) {
        // A model may call its values as opc calls tensors.
        b.tensors[i] = made.name + "/" + b.name + "_" + std::to_string(i);
        while (modelNames_.count(b.tensors[i]) || tensorNames_.count(b.tensors[i])) b.tensors[i] += "_";
        // The model's name of the value, where no tensor is called so.
        if (!op.tensors[flat].empty() && !tensorNames_.count(op.tensors[flat])) b.tensors[i] = op.tensors[flat];
        tensorNames_.insert(b.tensors[i]);
        tensors_[index].push_back(b.tensors[i]);
      }
    auto *conf = next(made.name, draft_.places_[op.place]);
    wire::toProto(made, conf->mutable_user_conf());
  }

  const GraphDraft &draft_;
  GraphFile *file_;
  std::vector<bool> isNeeded_;
  std::vector<std::vector<std::string>> tensors_;
  std::unordered_set<std::string> reserved_, tensorNames_, modelNames_;
  std::unordered_map<std::string, int> numbers_;
  std::unordered_map<const Operand *, std::string> constants_;
};

void GraphDraft::write(const std::vector<std::pair<std::string, Term>> &outputs, GraphFile *file) {
  Writer(*this, file).run(outputs);
}

bool GraphDraft::isOutside(size_t first, const Term &term) const {
  return term->op < 0 || static_cast<size_t>(term->op) < first ||
         ops_[static_cast<size_t>(term->op)].kind != OpKind::kUser;
}

std::vector<size_t> GraphDraft::neededFrom(size_t first, const std::vector<Term> &results) const {
  std::vector<bool> isNeeded(ops_.size() - first, false);
  const auto need = [&](const Term &t) {
    if (!isOutside(first, t)) isNeeded[static_cast<size_t>(t->op) - first] = true;
  };
  for (const Term &t : results) need(t);
  for (size_t i = ops_.size(); i-- > first;) // ops stand behind what they read
    if (isNeeded[i - first])
      for (const Term &t : ops_[i].inputs) need(t);
  std::vector<size_t> needed;
  for (size_t i = first; i < ops_.size(); ++i)
    if (isNeeded[i - first]) needed.push_back(i);
  return needed;
}

bool GraphDraft::hasOps(size_t first, const std::vector<Term> &results) const {
  return !neededFrom(first, results).empty();
}

namespace {
/// Values are equal where the same op makes them; constants are themselves.
using ValueKey = std::pair<std::pair<int, int>, const Operand *>;
ValueKey keyOf(const Term &t) { return {{t->op, t->output}, t->op < 0 ? t.get() : nullptr}; }
} // namespace

void GraphDraft::addCaptures(size_t first, const std::vector<Term> &results, std::vector<Term> *captures) const {
  std::set<ValueKey> known;
  for (const Term &t : *captures) known.insert(keyOf(t));
  const auto read = [&](const Term &t) {
    if (isOutside(first, t) && known.insert(keyOf(t)).second) captures->push_back(t);
  };
  for (size_t i : neededFrom(first, results))
    for (const Term &t : ops_[i].inputs) read(t);
  for (const Term &t : results) read(t);
}

std::string GraphDraft::graphOf(size_t first, const std::vector<Term> &inputs, const std::vector<Term> &results) const {
  GraphDraft graph(registry_);
  std::map<ValueKey, Term> made;
  for (size_t i = 0; i < inputs.size(); ++i)
    made.emplace(keyOf(inputs[i]), graph.input("in" + std::to_string(i), inputs[i]->desc));
  for (size_t i : neededFrom(first, results)) {
    DraftOp op = ops_[i];
    for (Term &t : op.inputs) t = made.at(keyOf(t));
    graph.places_.push_back(places_[op.place]);
    graph.names_.push_back(names_[op.place]);
    op.place = graph.places_.size() - 1;
    const int own = static_cast<int>(graph.ops_.size());
    for (size_t k = 0; k < op.outputs.size(); ++k)
      made.emplace(ValueKey{{static_cast<int>(i), static_cast<int>(k)}, nullptr},
                   operand(op.outputs[k], own, static_cast<int>(k)));
    graph.ops_.push_back(std::move(op));
  }
  std::vector<std::pair<std::string, Term>> outputs;
  for (size_t i = 0; i < results.size(); ++i)
    outputs.emplace_back("out" + std::to_string(i), made.at(keyOf(results[i])));
  GraphFile file;
  graph.write(outputs, &file);
  std::string text;
  google::protobuf::TextFormat::PrintToString(file.job->net(), &text);
  return text;
}

} // namespace opc::onnx
