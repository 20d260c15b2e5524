// opc dialect -> graph protobuf.
// SPDX-License-Identifier: Apache-2.0
#include "GraphEmitter.h"
#include "AttrBridge.h"
#include "AttrWire.h"
#include "Graph.h"
#include "GraphAttributes.h"
#include "Locations.h"

#include <google/protobuf/text_format.h>

using namespace mlir;

namespace opc {
namespace {

bool parse(const std::string &text, google::protobuf::Message *m) {
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  return parser.ParseFromString(text, m);
}

class GraphWriter {
public:
  GraphWriter(graph::Job *job, std::string *error) : job_(job), error_(error) {}

  bool run(ModuleOp module) {
    if (auto job = module->getAttrOfType<ir::JobAttr>(ir::kJobAttr)) {
      parse(job.getRest().str(), job_);
      if (!job.getTrainConf().empty()) parse(job.getTrainConf().str(), job_->mutable_job_conf()->mutable_train_conf());
    }
    for (Operation &op : graphBlock(module))
      if (!write(op)) return false;
    return true;
  }

private:
  static void place(const ir::OpPlace &from, graph::OpPlace *to) {
    to->set_file(from.file);
    if (!from.node.empty()) return to->set_node(from.node);
    to->set_line(from.line);
    to->set_column(from.column);
  }

  bool write(Operation &op) {
    if (op.hasTrait<OpTrait::IsTerminator>()) return true;
    if (auto fused = dyn_cast<ir::FusedOp>(&op)) // a graph has the ops
      return llvm::all_of(fused.getBody().front(), [&](Operation &inner) { return write(inner); });
    auto *conf = job_->mutable_net()->add_op();
    const ir::OpLocation l = ir::readLocation(op.getLoc());
    if (!l.conf.empty()) parse(l.conf, conf);
    conf->set_name(ir::opName(&op));
    if (!l.pythonLoc.empty()) conf->set_loc(l.pythonLoc);
    if (l.place.isKnown()) place(l.place, conf->mutable_place());
    if (const ir::Role role = ir::roleOf(&op); role != ir::Role::kForward)
      conf->set_calculation_pass_name(passName(role).str());
    if (auto origin = op.getAttrOfType<StringAttr>(ir::kGradientOfAttr))
      conf->set_pass_tag(tagOfOrigin(origin.getValue()));
    addControls(&op, conf);
    if (auto in = dyn_cast<ir::InputOp>(&op)) {
      input(in, conf->mutable_input_conf());
    } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
      variable(var, conf->mutable_variable_conf());
    } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
      conf->mutable_output_conf()->set_in(reference(out.getIn()));
      if (!conf->output_conf().has_out()) conf->mutable_output_conf()->set_out("out");
    } else if (auto constant = dyn_cast<ir::ConstantOp>(&op)) {
      if (!constantOp(constant, conf)) return false;
    } else if (auto user = dyn_cast<ir::UserOp>(&op)) {
      userOp(user, conf->mutable_user_conf());
    }
    return true;
  }

  /// What a pass has ordered; what the file has ordered is in the rest of its conf.
  static void addControls(Operation *op, graph::OperatorConf *conf) {
    if (auto names = op->getAttrOfType<ArrayAttr>(ir::kCtrlInAttr))
      for (auto name : names.getAsRange<StringAttr>())
        if (!llvm::is_contained(conf->ctrl_in_op_name(), name.str())) conf->add_ctrl_in_op_name(name.str());
  }

  /// The tensor as the file's ops refer to it. An input that took the place of a tensor is called as that was, which is
  /// no name of an output.
  static std::string reference(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v))
      v = cast<ir::FusedOp>(argument.getOwner()->getParentOp()).getArgs()[argument.getArgNumber()];
    const std::string tensor = ir::tensorName(v), op = ir::opName(v.getDefiningOp());
    return isa<ir::InputOp>(v.getDefiningOp()) && tensor.compare(0, op.size() + 1, op + "/") != 0 ? op + "/out"
                                                                                                  : tensor;
  }

  /// "x/out" -> "out": the blob name is what follows the op's name.
  static std::string blobName(Value v, StringRef opName) {
    const std::string tensor = ir::tensorName(v);
    return tensor.size() > opName.size() + 1 ? tensor.substr(opName.size() + 1) : "out";
  }

  void input(ir::InputOp op, graph::InputOpConf *conf) {
    user_op::TensorDesc desc;
    if (ir::describe(op.getOut().getType(), &desc)) wire::toProto(desc, conf);
    conf->set_out(blobName(op.getOut(), op.getName()));
  }

  void variable(ir::VariableOp op, graph::VariableOpConf *conf) {
    if (auto initializer = op.getInitializerAttr()) toProto(initializer, conf->mutable_initializer());
    if (op.getSeed()) conf->set_random_seed(static_cast<int64_t>(*op.getSeed()));
    if (!op.getTrainable()) conf->set_trainable(false);
    user_op::TensorDesc desc;
    if (ir::describe(op.getOut().getType(), &desc)) wire::toProto(desc, conf);
    conf->set_out(blobName(op.getOut(), op.getName()));
  }

  /// The op that first read the value, in the order of the import.
  static Operation *firstReader(ir::ConstantOp op) {
    Operation *first = nullptr;
    for (Operation *user : op.getOut().getUsers()) first = user; // the newest use comes first
    return first;
  }

  bool constantOp(ir::ConstantOp op, graph::OperatorConf *conf) {
    auto value = cast<DenseElementsAttr>(op.getValue());
    if (!fitsGraphFile(value)) {
      *error_ = "op " + conf->name() + ", " + ir::descOf(op.getOut().getType()).toString() +
                ", is a constant of several different values, which a graph file cannot hold";
      if (Operation *reader = firstReader(op)) {
        const std::string place = ir::readLocation(reader->getLoc()).pythonLoc;
        *error_ += "; it is read by " + ir::opName(reader) + (place.empty() ? "" : " (" + place + ")");
      }
      return false;
    }
    const user_op::ArgBinding out{"out", {ir::tensorName(op.getOut())}};
    wire::toProto(user_op::OpConf{conf->name(), "constant", {}, {out}, constantAttributes(op)},
                  conf->mutable_user_conf());
    return true;
  }

  void userOp(ir::UserOp op, graph::UserOpConf *conf) {
    conf->set_op_type_name(op.getOpType().str());
    auto bind = [](StringRef arg, ValueRange values, graph::UserOpConf::ArgEntry *entry) {
      entry->set_key(arg.str());
      for (Value v : values) entry->mutable_value()->add_s(reference(v));
    };
    op.forEachInputArg([&](StringRef arg, ValueRange values) { bind(arg, values, conf->add_input()); });
    op.forEachOutputArg([&](StringRef arg, ValueRange values) { bind(arg, values, conf->add_output()); });
    for (NamedAttribute a : op.getOpAttrs()) {
      auto *attr = conf->add_attr();
      attr->set_key(a.getName().str());
      wire::toProto(ir::fromMlir(a.getValue()), attr->mutable_value());
    }
  }

  graph::Job *job_;
  std::string *error_;
};

} // namespace

bool fitsGraphFile(DenseElementsAttr constant) { return constant.isSplat() || constant.getNumElements() == 1; }

std::map<std::string, AttrValue> constantAttributes(ir::ConstantOp op) {
  const auto value = cast<DenseElementsAttr>(op.getValue());
  const user_op::TensorDesc desc = ir::descOf(op.getOut());
  const bool floating = isa<FloatType>(value.getElementType()); // those that are only stored, too
  return {{"dtype", AttrValue(desc.data_type())},
          {"floating_value", AttrValue(floating ? value.getSplatValue<APFloat>().convertToDouble() : 0.0)},
          {"integer_value", AttrValue(floating ? int64_t{0} : value.getSplatValue<APInt>().getSExtValue())},
          {"is_floating_value", AttrValue(floating)},
          {"shape", AttrValue(desc.shape())}};
}

std::vector<graph::ModelNumber> modelNumbersOf(ModuleOp module) {
  graph::Job rest;
  if (auto job = module->getAttrOfType<ir::JobAttr>(ir::kJobAttr)) parse(job.getRest().str(), &rest);
  return {rest.net().model_number().begin(), rest.net().model_number().end()};
}

bool toGraph(ModuleOp module, graph::Job *job, std::string *error) { return GraphWriter(job, error).run(module); }

} // namespace opc
