// The nodes of an ONNX model -> ops of opc.
// SPDX-License-Identifier: Apache-2.0
#include "NearestNames.h"
#include "OnnxBounds.h"
#include "OnnxConversion.h"
#include "OnnxDeclaredTypes.h"
#include "OnnxInputs.h"
#include "OnnxKnownOps.h"
#include "OnnxModelHead.h"
#include "OnnxNames.h"
#include "OnnxNodeCount.h"
#include "OnnxNodeOrder.h"
#include "OnnxOpGroups.h"
#include "OnnxOwnNodes.h"
#include "OnnxPluginNodes.h"
#include "OnnxSizes.h"
#include "OnnxTensorData.h"
#include "OnnxTensorNames.h"
#include "OnnxUnknownOps.h"
#include "PrintableText.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace opc::onnx {
namespace {

constexpr size_t kMaxDepth = 64; // of functions and graphs in one another
constexpr int64_t kDecidingElements = 64;
constexpr size_t kConstantBytes = 1 << 20, kFloatConstantBytes = 1 << 10;

/// Names that are seen at a place: those of the graph, and of the graphs around it.
struct Scope {
  const Scope *outer = nullptr;
  std::unordered_map<std::string, Term> values = {};
  std::unordered_set<std::string> leftOut = {}; // inputs of a function
  const Term *find(const std::string &name) const {
    for (const Scope *s = this; s; s = s->outer)
      if (const auto it = s->values.find(name); it != s->values.end()) return &it->second;
    return nullptr;
  }
  /// Whether a call leaves it out. Of any other name without a value it has been said why, or is another's fault.
  bool isLeftOut(const std::string &name) const {
    for (const Scope *s = this; s; s = s->outer)
      if (s->values.count(name)) return s->leftOut.count(name) > 0;
    return false;
  }
};

using Attributes = std::map<std::string, const Attribute *>;
using Values = google::protobuf::RepeatedPtrField<Value>;

std::string labelOf(const Node &node, int index, const std::string &prefix) {
  return "node " + std::to_string(index) + (node.name().empty() ? "" : " \"" + shown(prefix + node.name()) + "\"");
}

Refusal unmade(const Node &node, const std::string &name) {
  return {"OPC0321", node.op_type() + " reads '" + shown(name) + "', which nothing makes",
          "a value is a graph's input, an initializer, or a node's output"};
}
Refusal madeTwice(const std::string &name) {
  return {"OPC0321", "two values are called '" + shown(name) + "'", "each value has a name of its own"};
}

/// One more while it lives.
class Counted {
public:
  explicit Counted(int *count) : count_(count) { ++*count_; }
  ~Counted() { --*count_; }
  Counted(const Counted &) = delete;
  Counted &operator=(const Counted &) = delete;

private:
  int *count_;
};

class ModelImport final : public GraphInliner {
public:
  ModelImport(const ParsedModel &parsed, const Registry &registry, const ImportRequest &request,
              const std::map<std::string, std::string> &decided, std::vector<Diagnostic> *diagnostics)
      : parsed_(parsed), model_(&parsed.model()), registry_(registry), request_(request), decided_(decided),
        diagnostics_(diagnostics), draft_(registry),
        inputs_(model_->graph(), request,
                [this](const char *code, std::string message, std::string help) {
                  error("", code, std::move(message), std::move(help));
                }),
        files_(request.name == "<stdin>" || request.name.rfind("git:", 0) == 0 ? "" : request.name,
               request.model.beside),
        tensorNames_(*model_), declared_(model_->graph()) {}

  /// False on error, and where inputs must be known: those are in undecided().
  bool run();
  /// What a run has made; nothing of it is here any more.
  ImportedModel take();
  const std::map<std::string, std::string> &undecided() const { return undecided_; }

  std::vector<Term> inlined(const Graph &graph, const std::vector<Term> &inputs) override;
  std::optional<std::vector<Term>> tried(const Graph &graph, std::string *fault) override {
    int no = 0;
    const Counted inOp(mayKeepBranches() ? &graphsInOps_ : &no);
    return tried(graph, {}, fault);
  }
  std::optional<std::vector<Term>> triedInOp(const Graph &graph, const std::vector<Term> &inputs,
                                             std::string *fault) override;
  /// A text within a text within a text grows by its quotation marks.
  bool mayKeepTurns() const override { return request_.graphs != GraphsInOps::kNone && graphsInOps_ < 4; }
  bool mayKeepBranches() const override { return request_.graphs == GraphsInOps::kAll && mayKeepTurns(); }

private:
  std::optional<std::vector<Term>> tried(const Graph &graph, const std::vector<Term> &inputs, std::string *fault);

  // Of the whole model.
  Term inputTerm(const std::string &name);
  void readInputs(Scope *scope);
  std::optional<std::string> constantInput(const std::string &name, const user_op::TensorDesc &desc);
  void readInitializers(const Graph &graph, Scope *scope, const std::string &prefix);
  bool finish(const Scope &scope);
  void inputsAlone();

  // Of its nodes.
  struct Level { // what the nodes of a graph or function have in common
    const Opsets *opsets;
    const Attributes *references = nullptr; // of a function: its node's attributes
    std::string prefix;                     // of names
    size_t depth = 0;
  };
  /// `outputs`: what leaves the nodes.
  bool hasProperNames(const Nodes &nodes, const Scope &scope);
  bool hasUnknown(const Nodes &nodes, const std::vector<int> &order, const OpGroups *groups);
  void convertNodes(const Nodes &nodes, const Values &outputs, Scope *scope, const Level &level);
  bool restore(const OpGroups &groups, const OpGroups::Group &group, const Nodes &nodes, Scope *scope,
               const Level &level);
  void tooMany();
  void convert(const Node &node, int index, Scope *scope, const Level &level);
  NodePlace enter(const Node &node, int index, const Level &level);
  bool sayUnmade(const std::string &name);
  void define(const std::string &name, const Term &value, Scope *scope, const Level &level);
  std::vector<Term> convertOne(const Node &node, const std::vector<Term> &inputs, const Attributes &attributes,
                               Scope *scope, const Level &level);
  std::vector<Term> call(const Function &function, const Node &node, const std::vector<Term> &inputs,
                         const Attributes &attributes, const Level &level);
  void noteUnknown(const Node &node, int64_t version, const std::string &place);
  Term constantNode(const Node &node, const Attributes &attributes, const Level &level);
  Term tensorTerm(const Tensor &tensor, const std::string &prefix, const std::string &name, bool isInitializer,
                  const SparseTensor *sparse = nullptr);
  std::optional<std::string> givenConstant(const std::string &name, const user_op::TensorDesc &desc);
  void undecide(const Undecided &u, const std::string &op);
  void checkDeclared(const std::string &name, const Operand &value);
  void checkTypes(const Graph &graph, const Scope &scope) const;

  void error(const std::string &place, const Refusal &r) { error(place, r.code.c_str(), r.message, r.help); }
  void error(const std::string &place, const char *code, std::string message, std::string help = "") {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    d.range.file = place.empty() ? request_.name : place;
    diagnostics_->push_back(std::move(d));
    ++errors_;
  }

  const ParsedModel &parsed_;
  const Model *const model_;
  const Registry &registry_;
  const ImportRequest &request_;
  const std::map<std::string, std::string> &decided_;
  std::vector<Diagnostic> *diagnostics_;
  GraphDraft draft_;
  ModelInputs inputs_;
  ExternalFiles files_;
  const TensorNames tensorNames_;
  std::map<std::pair<const Tensor *, std::string>, Term> variables_; // each once, however often its graph is converted
  NamedTerms outputs_;
  size_t errors_ = 0;
  bool isTold_ = false;

  ModelHead head_;
  KnownOps known_{head_, registry_};
  const DeclaredTypes declared_;
  std::map<const Function *, bool>
      calls_; // that are being resolved: whether it has been said that they call themselves
  UnknownOps unknown_;
  std::map<std::string, std::string> undecided_; // values of inputs that must be known
  Scope *scope_ = nullptr;                       // where the node that is converted stands
  const Level *level_ = nullptr;
  NodePlace place_;     // of the node of the model's own graph that is converted, or in it of a graph of an op
  int graphsInOps_ = 0; // in which the node lies that is converted
  int mustBeKnown_ = 0; // how many of them refuse what is not known, as no input decides it
};

/// Null where there is no such input.
Term ModelImport::inputTerm(const std::string &name) {
  const auto desc = inputs_.descs().find(name);
  if (desc == inputs_.descs().end()) return nullptr;
  std::optional<std::string> given;
  if (const auto known = decided_.find(name); known != decided_.end()) given = known->second;
  if (!given && request_.model.constants.count(name)) given = constantInput(name, desc->second);
  if (!given) return draft_.input(printableName(name), desc->second);
  auto bytes = std::make_shared<const std::string>(std::move(*given));
  return GraphDraft::constant({desc->second, *bytes, bytes});
}

void ModelImport::readInputs(Scope *scope) {
  for (const Value &v : model_->graph().input()) {
    const bool isOptional = v.type().has_optional_type();
    if (isOptional || v.type().has_sequence_type()) {
      auto made = std::make_shared<Operand>();
      made->kind = Operand::Kind::kList;
      for (size_t k = 0; Term element = inputTerm(v.name() + "." + std::to_string(k)); ++k)
        made->list.push_back(std::move(element));
      const bool isList = !isOptional || v.type().optional_type().elem_type().has_sequence_type();
      if (isOptional && made->list.empty()) made->kind = Operand::Kind::kNothing;
      const Term alone = isList ? nullptr : inputTerm(v.name());
      scope->values[v.name()] = alone ? alone : made;
    } else if (Term input = inputTerm(v.name())) { // else an initializer
      scope->values[v.name()] = std::move(input);
    }
  }
}

std::optional<std::string> ModelImport::constantInput(const std::string &name, const user_op::TensorDesc &desc) {
  return inputs_.isOpen() ? std::nullopt : givenConstant(name, desc);
}

std::optional<std::string> ModelImport::givenConstant(const std::string &name, const user_op::TensorDesc &desc) {
  Result<std::string> bytes = request_.model.constant(name, desc);
  if (bytes) return std::move(*bytes);
  error("", bytes.status().id().c_str(), "the constant for '" + shown(name) + "': " + bytes.status().message(),
        bytes.status().help());
  return std::nullopt;
}

/// Of a sparse one `tensor` has the values.
Term ModelImport::tensorTerm(const Tensor &tensor, const std::string &prefix, const std::string &name,
                             bool isInitializer, const SparseTensor *sparse) {
  Term &made = variables_[{&tensor, prefix}];
  if (made) return made;
  Result<StoredTensor> value = sparse ? denseOf(*sparse, parsed_, &files_) : tensorOf(tensor, parsed_, &files_);
  if (!value) throw Refusal{value.status().id(), value.status().message(), value.status().help()};
  const bool isFloating = IsFloatingDataType(value->desc.data_type());
  const std::string whole = printableName(prefix + tensorNames_.of(&tensor, name));
  const bool isGiven = isInitializer && whole == printableName(name) && request_.model.constants.count(name);
  if (isGiven)
    if (auto given = givenConstant(name, value->desc)) {
      auto bytes = std::make_shared<const std::string>(std::move(*given));
      value = StoredTensor{value->desc, *bytes, bytes};
    }
  const size_t limit = isFloating ? isInitializer ? 0 : kFloatConstantBytes : kConstantBytes;
  if (isGiven || value->bytes.size() <= limit || value->bytes.empty()) {
    made = GraphDraft::constant(std::move(*value));
    if (isInitializer) draft_.fix(made, whole);
  } else {
    made = draft_.variable(whole, std::move(*value), isFloating && isInitializer);
  }
  if (const DataType type = narrowType(tensor); type != kInvalidDataType) draft_.markNarrow(made, type);
  return made;
}

void ModelImport::readInitializers(const Graph &graph, Scope *scope, const std::string &prefix) {
  const auto read = [&](const Tensor &t, const SparseTensor *sparse) {
    try {
      if (t.name().empty() || t.name().size() > kMaxName)
        throw Refusal{"OPC0321", "an initializer has no proper name", ""};
      if (scope->values.count(t.name())) throw madeTwice(t.name());
      scope->values[t.name()] = tensorTerm(t, prefix, t.name(), true, sparse);
    } catch (const Refusal &r) {
      error("", r);
    }
  };
  for (const Tensor &t : graph.initializer()) read(t, nullptr);
  for (const SparseTensor &t : graph.sparse_initializer()) read(t.values(), &t);
}

Term ModelImport::constantNode(const Node &node, const Attributes &attributes, const Level &level) {
  Conversion c(draft_, node, level.opsets->at(""), {}, attributes, this);
  c.checkValues("");
  if (attributes.size() > 1)
    c.invalid("it has " + std::to_string(attributes.size()) + " attributes, and a constant has one, its value");
  const auto list = [&](const std::vector<double> &values, const Shape &shape) {
    return c.constant(kFloat, shape, values);
  };
  if (attributes.count("value")) {
    const Attribute *a = c.attr("value", Attribute::TENSOR);
    return tensorTerm(a->t(), level.prefix, node.output_size() ? node.output(0) : "constant", false);
  }
  if (attributes.count("value_float")) return list({c.f("value_float", 0)}, Shape());
  if (attributes.count("value_int")) return c.constant({c.i("value_int", 0)}, Shape());
  if (attributes.count("value_floats")) {
    const auto values = c.floats("value_floats");
    return list(values, Shape({static_cast<int64_t>(values.size())}));
  }
  if (attributes.count("value_ints")) {
    const auto values = *c.ints("value_ints");
    return c.constant(values, Shape({static_cast<int64_t>(values.size())}));
  }
  if (attributes.count("sparse_value")) {
    const SparseTensor &sparse = c.attr("sparse_value", Attribute::SPARSE_TENSOR)->sparse_tensor();
    return tensorTerm(sparse.values(), level.prefix, node.output_size() ? node.output(0) : "constant", false, &sparse);
  }
  if (attributes.count("value_string") || attributes.count("value_strings"))
    c.unsupported("strings are no numbers that opc computes with");
  c.invalid("it has no value");
}

/// Throws Refusal where the call gives what the function does not take.
void checkCall(const Function &function, const std::vector<Term> &inputs, const Attributes &attributes) {
  const auto most = static_cast<size_t>(function.input_size());
  if (inputs.size() > most)
    throw Refusal{"OPC0322",
                  "input " + std::to_string(most) + " is too many: the function has " +
                      (most ? "at most " + std::to_string(most) : "no") + (most == 1 ? " input" : " inputs"),
                  ""};
  std::vector<std::string> known(function.attribute().begin(), function.attribute().end());
  for (const Attribute &a : function.attribute_proto()) known.push_back(a.name());
  for (const auto &[name, attribute] : attributes)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Refusal{"OPC0322", "the function has no attribute '" + shown(name) + "'",
                    didYouMeanAmong(name, known, "the function has no attributes")};
}

std::vector<Term> ModelImport::call(const Function &function, const Node &node, const std::vector<Term> &inputs,
                                    const Attributes &attributes, const Level &level) {
  if (level.depth >= kMaxDepth)
    throw Refusal{"OPC0322", "functions call one another more than " + std::to_string(kMaxDepth) + " deep",
                  "a function cannot call itself"};
  const auto [active, isNew] = calls_.emplace(&function, false);
  if (!isNew) { // said once: its calls may double with every level
    if (std::exchange(active->second, true)) throw Refusal{"", "", ""};
    throw Refusal{"OPC0322", "function " + shown(function.name()) + " calls itself", "a function cannot call itself"};
  }
  const std::unique_ptr<const Function, std::function<void(const Function *)>> end(
      &function, [this](const Function *f) {
        if (const auto at = calls_.find(f); !at->second) calls_.erase(at); // one that calls itself is not tried again
      });
  checkCall(function, inputs, attributes);
  Opsets opsets = *level.opsets;
  for (const OperatorSet &o : function.opset_import()) opsets[domainOf(o.domain())] = o.version();
  Attributes given = attributes;
  for (const Attribute &a : function.attribute_proto()) given.emplace(a.name(), &a);
  Scope scope;
  for (int k = 0; k < function.input_size(); ++k) {
    const Term given = static_cast<size_t>(k) < inputs.size() ? inputs[static_cast<size_t>(k)] : nullptr;
    scope.values[function.input(k)] = given;
    if (!given) scope.leftOut.insert(function.input(k));
  }
  const Level inner{&opsets, &given, level.prefix + (node.name().empty() ? node.op_type() : node.name()) + "/",
                    level.depth + 1};
  const GraphDraft::Visit visit(&draft_);
  convertNodes(function.node(), {}, &scope, inner);
  std::vector<Term> results;
  for (const std::string &name : function.output()) {
    const Term *value = scope.find(name);
    if (!value && errors_ == 0)
      throw Refusal{"OPC0322", "function " + function.name() + " makes no '" + shown(name) + "'", ""};
    results.push_back(value ? *value : nullptr);
  }
  return results;
}

std::vector<Term> ModelImport::inlined(const Graph &graph, const std::vector<Term> &inputs) {
  if (level_->depth >= kMaxDepth) throw Refusal{"OPC0322", "graphs lie in one another too deep", ""};
  if (draft_.isFull()) throw Refusal{"", "", ""}; // a loop ends here
  const Level level{level_->opsets, level_->references, level_->prefix, level_->depth + 1};
  Scope scope{scope_};
  for (int k = 0; k < graph.input_size() && static_cast<size_t>(k) < inputs.size(); ++k)
    scope.values[graph.input(k).name()] = inputs[static_cast<size_t>(k)];
  const GraphDraft::Visit visit(&draft_);
  readInitializers(graph, &scope, level.prefix);
  Scope *const outer = scope_;
  const Level *const outerLevel = level_;
  const size_t before = errors_;
  convertNodes(graph.node(), graph.output(), &scope, level);
  scope_ = outer, level_ = outerLevel;
  checkTypes(graph, scope);
  std::vector<Term> results;
  for (const Value &v : graph.output()) {
    const Term *value = scope.find(v.name());
    const bool isNews = value ? !*value && errors_ == 0 : errors_ == before; // else it has been said why
    if (isNews && unknown_.empty() && undecided_.empty())
      throw Refusal{"OPC0322", "a graph within the node makes no '" + shown(v.name()) + "'", ""};
    results.push_back(value ? draft_.whole(*value) : nullptr);
  }
  if (errors_ != before || std::count(results.begin(), results.end(), nullptr)) throw Refusal{"", "", ""};
  return results;
}

std::optional<std::vector<Term>> ModelImport::triedInOp(const Graph &graph, const std::vector<Term> &inputs,
                                                        std::string *fault) {
  const Counted inOp(&graphsInOps_), undecided(&mustBeKnown_);
  return tried(graph, inputs, fault);
}

std::optional<std::vector<Term>> ModelImport::tried(const Graph &graph, const std::vector<Term> &inputs,
                                                    std::string *fault) {
  const size_t said = diagnostics_->size(), errors = errors_;
  try {
    return inlined(graph, inputs);
  } catch (const Refusal &r) {
    // Ops that nobody knows, values that are not decided yet and graphs that are too large are no question of what
    // fits.
    if (!r.code.empty() || draft_.isFull() || !unknown_.empty() || !undecided_.empty()) throw;
  }
  const auto first = std::find_if(diagnostics_->begin() + static_cast<ptrdiff_t>(said), diagnostics_->end(),
                                  [](const Diagnostic &d) { return d.severity == Severity::kError; });
  *fault = first == diagnostics_->end() ? "it cannot be converted" : first->message;
  diagnostics_->resize(said);
  errors_ = errors;
  return std::nullopt;
}

std::vector<Term> ModelImport::convertOne(const Node &node, const std::vector<Term> &inputs,
                                          const Attributes &attributes, Scope *scope, const Level &level) {
  if (const Function *function = head_.function(node)) return call(*function, node, inputs, attributes, level);
  const std::string domain = domainOf(node.domain());
  const int64_t version = versionOf(*level.opsets, domain);
  if (domain.empty() && node.op_type() == "Constant") return {constantNode(node, attributes, level)};
  const Converter *converter = ConverterTable::get().find(domain, node.op_type());
  if (!converter) {
    if (const user_op::OpDef *def = known_.pluginOp(node))
      return convertPluginNode(*def, node, inputs, attributes, &draft_, this);
    noteUnknown(node, version, place_.text());
    return std::vector<Term>(static_cast<size_t>(node.output_size()));
  }
  scope_ = scope;
  level_ = &level;
  std::vector<Term> read = inputs;
  for (const Term &input : read) draft_.noteRead(input);
  for (size_t k = 0; k < read.size(); ++k)
    if (!isParameter(node, k)) read[k] = draft_.untrained(read[k]);
  // Converters of ONNX Runtime's domain build on those of the standard one.
  Conversion c(draft_, node, domain.empty() ? version : level.opsets->at(""), std::move(read), attributes, this);
  c.checkVersion(domain);
  c.checkInputs(domain);
  c.checkOutputs(domain);
  c.checkValues(domain);
  convertWithBounds(c, *converter);
  c.checkAttributes(domain);
  return c.take();
}

void ModelImport::noteUnknown(const Node &node, int64_t version, const std::string &place) {
  std::string library;
  for (const StringPair &p : node.metadata_props())
    if (p.key() == onnx_export::kLibraryKey) library = p.value();
  unknown_.note(domainOf(node.domain()), node.op_type(), version, place, library);
}

void ModelImport::undecide(const Undecided &u, const std::string &op) {
  if (mustBeKnown_)
    throw Refusal{"OPC0422", op + ": " + u.what + " must be known while the model is imported, and is not", ""};
  const std::vector<std::string> names = draft_.inputsOf(u.term);
  std::string list, large;
  bool isDecided = !names.empty();
  for (const std::string &name : names) {
    const auto desc = inputs_.descs().find(name);
    list += (list.empty() ? "" : ", ") + std::string("'") + shown(name) + "'";
    std::optional<std::string> bytes;
    const bool isSmall = desc == inputs_.descs().end() || desc->second.shape().elem_cnt() <= kDecidingElements;
    if (!isSmall && large.empty()) large = name;
    if (desc != inputs_.descs().end() && request_.model.decide && isSmall)
      bytes = request_.model.decide(name, desc->second);
    isDecided &= bytes.has_value();
    if (bytes) undecided_[name] = *bytes;
  }
  if (isDecided) return;
  undecided_.clear();
  if (names.empty())
    throw Refusal{"OPC0422", op + ": " + u.what + " must be known while the model is imported, and is not", ""};
  throw Refusal{"OPC0422",
                op + ": " + u.what + " must be known while the model is imported; it depends on the input" +
                    (names.size() == 1 ? " " : "s ") + list,
                "make it a constant: --const " + shown(large.empty() ? names[0] : large) + "=VALUE" +
                    (!request_.model.decide ? ""
                     : large.empty()        ? ", or give it: --input " + shown(names[0]) + "=VALUE"
                                            : "; opc run takes by itself what has at most " +
                                                  std::to_string(kDecidingElements) + " elements")};
}

/// What a graph within an op says of its own values must not contradict what its ops make. Throws Refusal.
void ModelImport::checkTypes(const Graph &graph, const Scope &scope) const {
  for (const auto *list : {&graph.input(), &graph.value_info(), &graph.output()})
    for (const Value &v : *list) {
      if (!v.type().has_tensor_type() && !v.type().has_sequence_type()) continue;
      const auto found = scope.values.find(v.name());
      if (found == scope.values.end() || !found->second || found->second->kind != Operand::Kind::kTensor) continue;
      if (auto refusal = typeContradiction(v.name(), v.type(), *found->second, draft_))
        throw Refusal(std::move(*refusal));
    }
}

/// What the model says of a value must not contradict what its ops make. Shapes are hints, of the sizes that it was
/// exported with.
void ModelImport::checkDeclared(const std::string &name, const Operand &value) {
  if (const auto refusal = declared_.contradiction(name, value, draft_)) return error(place_.text(), *refusal);
  if (!request_.shapes.empty()) return;
  const auto said = declared_.otherShape(name, value);
  if (!said) return;
  error(place_.text(), "OPC0315",
        "'" + shown(name) + "' is " + value.desc.toString() + ", and the model says that its shape is " + *said,
        "what the ops make is taken");
  diagnostics_->back().severity = Severity::kWarning;
  --errors_;
}

/// Says which node of the model's graph does not give this output of its, which is read. False where nothing has to be
/// said: it is another's fault.
bool ModelImport::sayUnmade(const std::string &name) {
  if (errors_ || !unknown_.empty() || !undecided_.empty()) return false;
  const auto maker = makerOf(model_->graph().node(), name);
  if (!maker) return false;
  const Node &node = model_->graph().node(maker->first);
  error(request_.name + ": " + labelOf(node, maker->first, ""), "OPC0422",
        node.op_type() + ": output " + std::to_string(maker->second) + " ('" + shown(name) +
            "') is read, and opc does not give it with these inputs, attributes and operator set");
  return true;
}

/// The ops that follow are of this node. The place of the one around it.
NodePlace ModelImport::enter(const Node &node, int index, const Level &level) {
  const std::string label = labelOf(node, index, level.prefix);
  NodePlace outer = place_;
  if (level.depth == 0)
    place_ = {request_.name, label};
  else if (graphsInOps_)
    place_.node += ": " + label;
  std::string name = node.name();
  if (name.empty() && node.output_size()) name = node.output(0);
  if (name.size() > 200) name.clear();
  draft_.enterNode(place_, printableName(level.prefix + name));
  return outer;
}

void ModelImport::define(const std::string &name, const Term &value, Scope *scope, const Level &level) {
  if (value && level.depth == 0) checkDeclared(name, *value);
  if (name.size() <= kMaxName) draft_.name(value, printableName(level.prefix + name));
  if (!scope->values.emplace(name, value).second) error(place_.text(), madeTwice(name));
}

void ModelImport::convert(const Node &node, int index, Scope *scope, const Level &level) {
  const NodePlace outer = enter(node, index, level);
  std::vector<Term> results;
  try {
    std::vector<Term> inputs;
    bool isKnown = true;
    for (const std::string &read : readsOf(node)) {
      const Term *value = scope->find(read);
      if (!value) throw unmade(node, read);
      if (*value || scope->isLeftOut(read)) continue;
      if (level.depth == 0) (void)sayUnmade(read);
      isKnown = false;
    }
    for (const std::string &read : node.input()) inputs.push_back(read.empty() ? nullptr : *scope->find(read));
    while (!inputs.empty() && !inputs.back() && node.input(static_cast<int>(inputs.size()) - 1).empty())
      inputs.pop_back();
    Attributes attributes;
    for (const Attribute &a : node.attribute()) {
      const Attribute *value = &a;
      if (!a.ref_attr_name().empty()) {
        if (!level.references)
          throw Refusal{"OPC0322",
                        "attribute '" + shown(a.name()) + "' refers to one of a function, and the node is in none", ""};
        const auto found = level.references->find(a.ref_attr_name());
        if (found == level.references->end()) continue; // the op's default
        value = found->second;
      }
      if (!attributes.emplace(a.name(), value).second)
        throw Refusal{"OPC0322", "attribute '" + shown(a.name()) + "' is given twice", ""};
    }
    if (isKnown) { // else what went wrong is said
      results = convertOne(node, inputs, attributes, scope, level);
      for (int k = static_cast<int>(results.size()); k < node.output_size(); ++k)
        if (!node.output(k).empty()) throw Refusal{"OPC0322", tooManyOutputs(node, k, results.size()), ""};
    }
  } catch (const Undecided &u) {
    try {
      undecide(u, node.op_type());
    } catch (const Refusal &r) {
      error(place_.text(), r);
    }
  } catch (const Refusal &r) {
    if (!r.code.empty())
      error(place_.text(), r.code.c_str(), r.code == "OPC0321" ? r.message : node.op_type() + ": " + r.message, r.help);
  }
  results.resize(static_cast<size_t>(node.output_size()));
  for (int k = 0; k < node.output_size(); ++k)
    if (!node.output(k).empty()) define(node.output(k), results[static_cast<size_t>(k)], scope, level);
  place_ = outer;
}

/// Says it once.
void ModelImport::tooMany() {
  if (isTold_) return;
  isTold_ = true;
  error(place_.text(), "OPC0422", "the model becomes more than 1,000,000 ops",
        "its functions, loops or sequences, written out, are too many");
}

/// The op that exporting it has written the nodes for, if they are still those; false if they mean what they mean.
bool ModelImport::restore(const OpGroups &groups, const OpGroups::Group &group, const Nodes &nodes, Scope *scope,
                          const Level &level) {
  const NodePlace outer = enter(nodes[group.members[0]], group.members[0], level);
  if (group.name.size() <= kMaxName) draft_.enterNode(place_, printableName(level.prefix + group.name));
  std::optional<std::vector<std::pair<std::string, Term>>> made;
  try {
    made = groups.restored(
        group, [scope](const std::string &name) { return scope->find(name); }, level.opsets->at(""), &draft_);
    for (size_t k = 0; made && k < made->size(); ++k) define((*made)[k].first, (*made)[k].second, scope, level);
  } catch (const Refusal &) {
    made = std::nullopt;
  }
  place_ = outer;
  return made.has_value();
}

/// Before any node is converted: of a large model little more than its message is in memory by then.
bool ModelImport::hasProperNames(const Nodes &nodes, const Scope &scope) {
  const auto faults = nameFaults(nodes, [&](const std::string &name) { return scope.find(name) != nullptr; });
  for (const NameFault &f : faults) {
    const std::string place = request_.name + ": " + labelOf(nodes[f.node], f.node, "");
    error(place, f.isMadeTwice ? madeTwice(f.name) : unmade(nodes[f.node], f.name));
  }
  return faults.empty();
}

/// As hasProperNames, of ops that nobody knows. Nodes that exporting an op has written become that op, whatever they
/// are: with one of those among them (`groups`, null where none does) only conversion tells.
bool ModelImport::hasUnknown(const Nodes &nodes, const std::vector<int> &order, const OpGroups *groups) {
  const std::vector<int> unknown = unknownNodes(nodes, order, &known_);
  const std::set<int> all(unknown.begin(), unknown.end());
  for (size_t at = 0; groups && !all.empty() && at < order.size(); ++at)
    if (const auto group = groups->at(at))
      for (size_t k = at; k < group->end; ++k)
        if (all.count(order[k])) return false;
  for (const int k : unknown)
    noteUnknown(nodes[k], versionOf(head_.opsets(), domainOf(nodes[k].domain())),
                NodePlace{request_.name, labelOf(nodes[k], k, "")}.text());
  return !unknown.empty();
}

void ModelImport::convertNodes(const Nodes &nodes, const Values &outputs, Scope *scope, const Level &level) {
  if (level.depth == 0 && !hasProperNames(nodes, *scope)) return;
  std::vector<int> cycle;
  const std::vector<int> order = orderOf(nodes, &cycle);
  if (!cycle.empty()) {
    std::string list;
    for (size_t k = 0; k < cycle.size() && k < 10; ++k) {
      const Node &n = nodes[cycle[k]];
      list += (k ? " -> " : "") + std::string("node ") + std::to_string(cycle[k]) + " (" +
              shown(n.name().empty() ? n.op_type() : n.name()) + ")";
    }
    error(place_.text(), "OPC0321", "the nodes form a cycle: " + list + (cycle.size() > 10 ? " -> ..." : ""),
          "a value cannot depend on itself");
    return;
  }
  const OpGroups groups(nodes, order, outputs);
  const bool mayRestore =
      !level.references && request_.sizes.empty(); // written for the sizes that it was exported with
  if (level.depth == 0 && hasUnknown(nodes, order, mayRestore ? &groups : nullptr)) return;
  std::set<int> done; // constants of a group that is none
  for (size_t at = 0; at < order.size(); ++at) {
    const int k = order[at];
    if (done.erase(k)) continue;
    const auto group = mayRestore ? groups.at(at) : std::nullopt;
    if (group)
      for (const int constant : group->constants)
        convert(nodes[constant], constant, scope, level), done.insert(constant);
    if (group && restore(groups, *group, nodes, scope, level)) {
      at = group->end - 1;
      done.clear();
    } else {
      convert(nodes[k], k, scope, level);
    }
    if (draft_.isFull()) return tooMany();
    if (!undecided_.empty()) return; // begun again with what is known by now
  }
}

void ModelImport::inputsAlone() {
  Scope scope;
  readInputs(&scope);
  const auto [message, help] = inputs_.unboundText();
  error("", "OPC0207", message, help);
  diagnostics_->back().severity = Severity::kNote;
  --errors_;
}

bool ModelImport::finish(const Scope &scope) {
  if (!unknown_.empty()) error("", "OPC0421", unknown_.message(), unknown_.help());
  if (errors_ || !undecided_.empty()) return false;
  NamedTerms &outputs = outputs_;
  for (const Value &v : model_->graph().output()) {
    const Term *value = scope.find(v.name());
    if (value && !*value && sayUnmade(v.name())) continue;
    if (!value || !*value) {
      error("", "OPC0321", "output '" + shown(v.name()) + "' is made by nothing",
            "an output is a node's output, an input or an initializer");
      continue;
    }
    if ((*value)->kind == Operand::Kind::kList) { // an output for each element
      size_t k = 0;
      for (const Term &element : (*value)->list)
        outputs.emplace_back(printableName(v.name()) + "." + std::to_string(k++), element);
      continue;
    }
    if ((*value)->kind == Operand::Kind::kNothing) {
      error("", "OPC0422", "output '" + shown(v.name()) + "' is an empty optional, and opc's outputs are tensors");
      continue;
    }
    draft_.noteRead(*value);
    outputs.emplace_back(printableName(v.name()), draft_.whole(*value));
  }
  if (outputs.empty() && !errors_)
    error("", "OPC0321",
          model_->graph().output_size() ? "all outputs of the model are empty sequences" : "the model has no outputs",
          model_->graph().output_size()
              ? "elements of a sequence that is an input are given by their places: --shape NAME.0=DIMS, NAME.1=DIMS"
              : "");
  if (errors_) return false;
  addCounts(&draft_, &outputs);
  return true;
}

ImportedModel ModelImport::take() {
  ImportedModel made{std::move(draft_), std::move(outputs_), inputs_.descs(), {}, inputs_.isOpen()};
  for (const auto &[name, bytes] : decided_) made.decided.push_back(printableName(name));
  return made;
}

bool ModelImport::run() {
  if (const auto refusal = head_.read(*model_)) return error("", *refusal), false;
  if (!inputs_.bind()) return false;
  if (inputs_.isOpen()) return inputsAlone(), true;
  if (writtenNodes(*model_, GraphDraft::kMostOps) > GraphDraft::kMostOps) return tooMany(), false;
  Scope scope;
  readInputs(&scope);
  readInitializers(model_->graph(), &scope, "");
  if (errors_) return false;
  const Graph &graph = model_->graph();
  convertNodes(graph.node(), graph.output(), &scope, Level{&head_.opsets(), nullptr, "", 0});
  return finish(scope);
}

} // namespace

std::optional<ImportedModel> importOnce(const ParsedModel &model, const Registry &registry,
                                        const ImportRequest &request, std::vector<Diagnostic> *diagnostics) {
  // Inputs that decide become constants one attempt after another; each attempt finds at least one more.
  std::map<std::string, std::string> decided;
  for (;;) {
    ModelImport attempt(model, registry, request, decided, diagnostics);
    if (attempt.run()) return attempt.take();
    const size_t known = decided.size();
    const auto undecided = attempt.undecided();
    decided.insert(undecided.begin(), undecided.end());
    if (decided.size() == known) return std::nullopt;
  }
}

} // namespace opc::onnx
