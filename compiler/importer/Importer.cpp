// Graph file -> opc dialect.
// SPDX-License-Identifier: Apache-2.0
#include "Importer.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "GraphAttributes.h"
#include "Locations.h"
#include "RunOp.h"
#include "StateHints.h"
#include "UnknownOps.h"
#include "UserOpBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <unordered_map>

using namespace mlir;

namespace opc {
namespace {

using graph::OperatorConf;

std::string shortText(const google::protobuf::Message &m) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string s;
  printer.PrintToString(m, &s);
  while (!s.empty() && s.back() == ' ') s.pop_back();
  return s;
}

bool isSet(const google::protobuf::Message &m) { return m.ByteSizeLong() != 0; }

/// Makes the ops of the dialect.
class ModuleMaker {
public:
  ModuleMaker(MLIRContext *ctx, GraphNodes *graph) : ctx_(ctx), graph_(*graph), builder_(ctx), hints_(ctx, *graph) {}

  OwningOpRef<ModuleOp> run(const std::vector<uint32_t> &order) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder_.getUnknownLoc());
    if (auto job = jobAttr()) (*module)->setAttr(ir::kJobAttr, job);
    module_ = *module;
    builder_.setInsertionPointToEnd(module->getBody());
    auto func = func::FuncOp::create(builder_, builder_.getUnknownLoc(), "graph", builder_.getFunctionType({}, {}));
    builder_.setInsertionPointToStart(func.addEntryBlock());
    made_.resize(graph_.nodes.size());
    for (uint32_t i : order) {
      made_[i] = makeOp(i);
      if (ArrayAttr hints = hints_.of(graph_.nodes[i])) made_[i]->setAttr(ir::kHintsAttr, hints);
    }
    func::ReturnOp::create(builder_, builder_.getUnknownLoc());
    hints_.checkNames(&graph_);
    if (graph_.errors()) return {};
    return module;
  }

  /// Gives inputs and variables that options.shapes names the types that they have by now.
  void retype() {
    std::map<std::string, uint32_t> shaped;
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.options.shapes.count(graph_.nodes[i].conf->name())) shaped.emplace(graph_.nodes[i].conf->name(), i);
    for (Operation &op : graphBlock(module_)) { // not made_: the graph may have been pruned
      if (!isa<ir::InputOp, ir::VariableOp>(&op)) continue;
      const auto found = shaped.find(ir::opName(&op));
      if (found == shaped.end()) continue;
      const Source source = sourceAt(found->second);
      op.getResult(0).setType(source.type);
      op.setLoc(source.location);
    }
  }

private:
  /// What the file says beside its ops; the training configuration by itself, since it is done with when it is
  /// followed.
  ir::JobAttr jobAttr() {
    // Without the net, which is nearly all of the file, while it is copied.
    graph::DLNetConf *net = graph_.file.job->unsafe_arena_release_net();
    graph::Job rest = *graph_.file.job;
    graph_.file.job->unsafe_arena_set_allocated_net(net);
    rest.DiscardUnknownFields();
    if (net && net->model_number_size()) *rest.mutable_net()->mutable_model_number() = net->model_number();
    std::string trainConf;
    if (rest.job_conf().has_train_conf()) {
      trainConf = shortText(rest.job_conf().train_conf());
      rest.mutable_job_conf()->clear_train_conf();
      if (!isSet(rest.job_conf())) rest.clear_job_conf();
    }
    const std::string text = shortText(rest);
    if (text.empty() && trainConf.empty()) return {};
    return ir::JobAttr::get(ctx_, builder_.getStringAttr(trainConf), builder_.getStringAttr(text));
  }

  /// A short text of what many ops have alike.
  const std::string &confText(const OperatorConf &rest) {
    constexpr size_t kMost = 1024;
    if (confTexts_.size() >= kMost) confTexts_.clear();
    const auto [known, isNew] = confTexts_.try_emplace(rest.SerializeAsString());
    if (isNew) known->second = shortText(rest);
    return known->second;
  }

  /// The op's place. `rest` is what of its conf only the writer of a graph needs.
  Location location(uint32_t i, OperatorConf rest) {
    const Node &node = graph_.nodes[i];
    const OperatorConf &conf = *node.conf;
    const SourceRange &r = graph_.file.opRanges[i];
    ir::OpLocation l;
    l.name = conf.name();
    l.file = graph_.file.name;
    l.line = r.line, l.column = r.column, l.endLine = r.endLine, l.endColumn = r.endColumn;
    l.pythonLoc = conf.loc();
    l.place = {conf.place().file(), conf.place().line(), conf.place().column(), conf.place().node()};
    if (isSet(rest)) l.conf = confText(rest);
    size_t flat = 0;
    bool custom = false;
    for (const auto &b : node.user.outputs)
      for (size_t k = 0; k < b.tensors.size(); ++k)
        custom |= node.makes[flat++] != conf.name() + "/" + b.name + "_" + std::to_string(k);
    if (!node.def && !node.makes.empty()) custom = node.makes[0] != conf.name() + "/out";
    if (custom) l.tensors.assign(node.makes.begin(), node.makes.end());
    return ir::makeLocation(ctx_, l);
  }

  /// The fields that all ops have and no op of the dialect has.
  static OperatorConf restOf(const OperatorConf &conf) {
    OperatorConf rest;
    if (conf.has_trainable()) rest.set_trainable(conf.trainable());
    if (conf.has_device_tag()) rest.set_device_tag(conf.device_tag());
    *rest.mutable_ctrl_in_op_name() = conf.ctrl_in_op_name();
    if (conf.has_scope_symbol_id()) rest.set_scope_symbol_id(conf.scope_symbol_id());
    if (conf.has_pass_tag()) rest.set_pass_tag(conf.pass_tag());
    if (conf.has_logical_chain_id()) rest.set_logical_chain_id(conf.logical_chain_id());
    if (conf.has_order_in_logical_chain()) rest.set_order_in_logical_chain(conf.order_in_logical_chain());
    if (conf.has_calculation_pass_name()) rest.set_calculation_pass_name(conf.calculation_pass_name());
    return rest;
  }

  /// After an error the type is unresolved, so that the ops that read the value can still be built and checked.
  Type interfaceType(uint32_t i, const std::string &name, bool hasShape, const graph::ShapeProto &shape,
                     DataType dtype) {
    if (graph_.options.floatsAs != kInvalidDataType && IsFloatingDataType(dtype)) dtype = graph_.options.floatsAs;
    DimVector dims(shape.dim().begin(), shape.dim().end());
    auto given = graph_.options.shapes.find(name);
    if (given != graph_.options.shapes.end()) {
      dims.assign(given->second.begin(), given->second.end());
      hasShape = true;
    }
    if (!isTensorDataType(dtype)) {
      graph_.error(static_cast<int>(i), "OPC0204",
                   "op " + name + ": the dtype " + dataTypeName(dtype) + " is not one that tensors may have");
      return ir::UnresolvedType::get(ctx_);
    }
    if (!hasShape) return ir::UnresolvedType::get(ctx_);
    if (static_cast<int64_t>(dims.size()) > kMaxRank) {
      graph_.error(static_cast<int>(i), "OPC0206",
                   "op " + name + ": rank " + std::to_string(dims.size()) + "; the limit is " +
                       std::to_string(kMaxRank));
      return ir::UnresolvedType::get(ctx_);
    }
    for (int64_t d : dims)
      if (d < -1) {
        graph_.error(static_cast<int>(i), "OPC0206",
                     "op " + name + ": the shape " + Shape(dims).ToString() + " has a negative dimension",
                     "-1 alone is allowed: a dimension that --shape or the input gives");
        return ir::UnresolvedType::get(ctx_);
      }
    user_op::TensorDesc desc(Shape(dims), dtype);
    if (std::find(dims.begin(), dims.end(), -1) == dims.end())
      if (auto bytes = tensorBytes(desc); !bytes) {
        graph_.error(static_cast<int>(i), "OPC0206", "op " + name + ": " + bytes.status().message());
        return ir::UnresolvedType::get(ctx_);
      }
    return ir::tensorType(ctx_, desc);
  }

  DataType defaultDtype() const { return static_cast<DataType>(graph_.file.job->job_conf().default_data_type()); }

  Value operand(uint32_t i, size_t k) {
    const auto &[op, out] = graph_.nodes[i].inputs[k];
    return made_[static_cast<size_t>(op)]->getResult(static_cast<unsigned>(out));
  }

  Operation *makeOp(uint32_t i) {
    const OperatorConf &conf = *graph_.nodes[i].conf;
    OperatorConf rest = restOf(conf);
    switch (conf.op_type_case()) {
    case OperatorConf::kInputConf: {
      const Source source = sourceAt(i);
      return ir::InputOp::create(builder_, source.location, source.type, conf.name());
    }
    case OperatorConf::kVariableConf: {
      const Source source = sourceAt(i);
      if (graph_.file.constants.count(conf.name())) return constantAt(i, source);
      const graph::VariableOpConf &own = conf.variable_conf();
      return ir::VariableOp::create(
          builder_, source.location, source.type, conf.name(), own.trainable(), source.initializer,
          own.has_random_seed() ? builder_.getI64IntegerAttr(own.random_seed()) : IntegerAttr());
    }
    case OperatorConf::kOutputConf: {
      graph::OutputOpConf own = conf.output_conf();
      own.clear_in();
      own.mutable_blob_conf()->clear_shape(); // those of what it shows
      own.mutable_blob_conf()->clear_data_type();
      own.mutable_blob_conf()->clear_is_dynamic();
      own.DiscardUnknownFields();
      if (!isSet(own.blob_conf())) own.clear_blob_conf();
      if (isSet(own)) *rest.mutable_output_conf() = std::move(own);
      return ir::OutputOp::create(builder_, location(i, std::move(rest)), operand(i, 0), conf.name());
    }
    case OperatorConf::kReturnConf:
      return ir::OutputOp::create(builder_, location(i, std::move(rest)), operand(i, 0), conf.name());
    default: return makeUserOp(i, std::move(rest));
    }
  }

  /// What an input or a variable is made of.
  struct Source;
  Operation *constantAt(uint32_t i, const Source &source) {
    const StoredTensor &value = graph_.file.values.at(graph_.nodes[i].conf->name());
    ArrayRef<char> bytes(value.bytes.data(), value.bytes.size());
    OpTensor converted(ir::descOf(source.type));
    if (converted.type() != value.desc.data_type()) { // ImportOptions::floatsAs
      OpTensor given(value.desc);
      std::copy(bytes.begin(), bytes.end(), given.mut_dptr());
      for (int64_t k = 0; k < given.elements(); ++k) setElement(&converted, k, element(given, k));
      bytes = ArrayRef<char>(converted.dptr(), converted.bytes());
    }
    return ir::ConstantOp::create(builder_, source.location, source.type,
                                  ir::denseFromBytes(cast<RankedTensorType>(source.type), bytes));
  }

  struct Source {
    Type type;
    Location location;
    ir::InitializerAttr initializer;
  };
  Source sourceAt(uint32_t i) {
    const OperatorConf &conf = *graph_.nodes[i].conf;
    return conf.has_input_conf() ? inputAt(i, restOf(conf)) : variableAt(i, restOf(conf));
  }

  Source inputAt(uint32_t i, OperatorConf rest) {
    const OperatorConf &conf = *graph_.nodes[i].conf;
    const auto &blob = conf.input_conf().blob_conf();
    Type type = interfaceType(i, conf.name(), blob.has_shape(), blob.shape(),
                              blob.has_data_type() ? static_cast<DataType>(blob.data_type()) : defaultDtype());
    graph::InputOpConf own = conf.input_conf();
    own.clear_out();
    own.mutable_blob_conf()->clear_shape();
    // Without a shape the type cannot carry the dtype; the conf keeps it until a shape comes.
    if (!isa<ir::UnresolvedType>(type)) own.mutable_blob_conf()->clear_data_type();
    if (!isSet(own.blob_conf())) own.clear_blob_conf();
    own.DiscardUnknownFields();
    if (isSet(own)) *rest.mutable_input_conf() = std::move(own);
    return {type, location(i, std::move(rest)), nullptr};
  }

  /// Many variables have few initializers.
  ir::InitializerAttr initializerOf(const graph::InitializerConf &conf) {
    const auto [known, isNew] = initializers_.try_emplace(conf.SerializeAsString());
    if (isNew) known->second = toMlir(ctx_, conf);
    return known->second;
  }

  /// Whether the conf says what makes it a variable and nothing that only the writer of a graph needs.
  static bool isPlain(const graph::VariableOpConf &conf) {
    return !conf.has_tick() && !conf.has_initialize_with_snapshot() && !conf.has_model_name() &&
           !conf.has_split_axis() && !conf.has_regularizer() && !(conf.has_trainable() && conf.trainable()) &&
           conf.nd_sbp().empty();
  }

  Source variableAt(uint32_t i, OperatorConf rest) {
    const graph::VariableOpConf &conf = graph_.nodes[i].conf->variable_conf();
    const std::string &name = graph_.nodes[i].conf->name();
    Type type = interfaceType(i, name, conf.has_shape(), conf.shape(),
                              conf.has_data_type() ? static_cast<DataType>(conf.data_type()) : defaultDtype());
    const ir::InitializerAttr initializer = conf.has_initializer() ? initializerOf(conf.initializer()) : nullptr;
    if (isPlain(conf) && !isa<ir::UnresolvedType>(type) && (initializer || !conf.has_initializer()))
      return {type, location(i, std::move(rest)), initializer};
    graph::VariableOpConf own = conf;
    own.clear_out();
    own.clear_shape();
    if (!isa<ir::UnresolvedType>(type)) own.clear_data_type();
    if (initializer) own.clear_initializer();
    own.clear_random_seed();
    if (!own.trainable()) own.clear_trainable(); // what says the default is written again
    own.DiscardUnknownFields();
    if (isSet(own)) *rest.mutable_variable_conf() = std::move(own);
    return {type, location(i, std::move(rest)), initializer};
  }

  Operation *makeUserOp(uint32_t i, OperatorConf rest) {
    const Node &node = graph_.nodes[i];
    ir::Role role = ir::Role::kForward;
    if (rest.has_calculation_pass_name())
      if (auto known = roleOfPass(rest.calculation_pass_name()); known && *known != ir::Role::kForward) {
        role = *known;
        rest.clear_calculation_pass_name();
      }
    std::string origin;
    if (role == ir::Role::kBackward) origin = originOfTag(rest.pass_tag()).str();
    if (!origin.empty()) rest.clear_pass_tag();
    SmallVector<Value> operands;
    for (size_t k = 0; k < node.reads.size(); ++k) operands.push_back(operand(i, k));
    SmallVector<Type> types(node.makes.size(), ir::UnresolvedType::get(ctx_));
    ir::UserOp op =
        ir::UserOpBuilder(builder_, node.user, operands, types).role(role).make(location(i, std::move(rest)));
    if (!origin.empty()) op->setAttr(ir::kGradientOfAttr, builder_.getStringAttr(origin));
    if (node.isOnCpu && graph_.options.isForGpu)
      op.setDeviceAttr(ir::DeviceAttr::get(ctx_, builder_.getStringAttr(DeviceTag(DeviceType::kCPU)), 0));
    if (node.isOrdered) op->setAttr(ir::kOrderedAttr, builder_.getUnitAttr());
    if (!node.controls.empty()) {
      SmallVector<StringRef> names;
      for (int before : node.controls) names.push_back(graph_.nodes[static_cast<size_t>(before)].conf->name());
      op->setAttr(ir::kCtrlInAttr, builder_.getStrArrayAttr(names));
    }
    return op;
  }

  MLIRContext *ctx_;
  GraphNodes &graph_;
  OpBuilder builder_;
  StateHints hints_;
  std::unordered_map<std::string, ir::InitializerAttr> initializers_; // by message
  std::unordered_map<std::string, std::string> confTexts_;            // by message
  std::vector<Operation *> made_;                                     // while the module is made
  ModuleOp module_;
};

} // namespace

struct GraphImport::Impl {
  std::unique_ptr<GraphFile> file;
  ImportOptions options;
  GraphNodes graph;
  ModuleMaker maker;

  Impl(MLIRContext *ctx, const Registry &registry, std::unique_ptr<GraphFile> given, ImportOptions asked,
       std::vector<Diagnostic> *diagnostics)
      : file(std::move(given)), options(std::move(asked)), graph(registry, *file, options, diagnostics),
        maker(ctx, &graph) {}
};

GraphImport::GraphImport(MLIRContext *ctx, const Registry &registry, std::unique_ptr<GraphFile> file,
                         ImportOptions options, std::vector<Diagnostic> *diagnostics)
    : impl_(std::make_unique<Impl>(ctx, registry, std::move(file), std::move(options), diagnostics)) {}
GraphImport::~GraphImport() = default;

OwningOpRef<ModuleOp> GraphImport::module() {
  eraseUnwantedUnknown(impl_->file.get(), impl_->graph.registry, impl_->options.wanted);
  GraphNodes &graph = impl_->graph;
  readNodes(&graph);
  linkNodes(&graph);
  if (graph.errors()) return {};
  const std::vector<uint32_t> order = sortNodes(&graph);
  if (graph.errors()) return {};
  return impl_->maker.run(order);
}

void GraphImport::setShapes(std::map<std::string, std::vector<int64_t>> shapes) {
  impl_->options.shapes = std::move(shapes);
  impl_->maker.retype();
}

} // namespace opc
