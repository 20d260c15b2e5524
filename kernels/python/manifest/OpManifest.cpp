// Manifests: text -> registrations.
// SPDX-License-Identifier: Apache-2.0
#include "OpManifest.h"

#include "AttrWire.h"
#include "KernelTask.h"
#include "ManifestRules.h"
#include "PluginOpeners.h"
#include "op_manifest.pb.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <set>

namespace opc::python {

namespace fs = std::filesystem;
using user_op::OpDef;

namespace {

constexpr uint64_t kMaxBytes = 64 << 20;
constexpr int kMaxNesting = 32, kVersion = 1;

Status wrong(const std::string &where, const std::string &why) {
  return Status(StatusCode::kInvalidGraph, "OPC0920", where + " is no valid manifest of operators: " + why)
      .withHelp("write it again: g.save() in Python writes it beside the graph");
}

class FirstError : public google::protobuf::io::ErrorCollector {
public:
  void AddError(int line, int column, const std::string &message) override {
    if (text.empty())
      text = "line " + std::to_string(line + 1) + ", column " + std::to_string(column + 1) + ": " + message;
  }
  std::string text;
};

bool isWord(const std::string &s) {
  return !s.empty() && s.size() <= 128 && !(s[0] >= '0' && s[0] <= '9') &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return c == '_' || (c < 128 && std::isalnum(c)); });
}
/// "demo::leaky_relu": a namespace keeps the names of built-in ops free.
bool isQualified(const std::string &name) {
  const size_t colons = name.rfind("::");
  if (colons == std::string::npos || !isWord(name.substr(colons + 2))) return false;
  const std::string space = name.substr(0, colons);
  return isWord(space) || isQualified(space);
}

AttrType attrTypeNamed(const std::string &name) {
  static const char *const names[] = {"",           "int32",      "int64",          "bool",       "float",
                                      "double",     "string",     "shape",          "data_type",  "list_int32",
                                      "list_int64", "list_float", "list_data_type", "list_shape", "list_string"};
  for (int32_t i = 1; i < static_cast<int32_t>(std::size(names)); ++i)
    if (name == names[i]) return static_cast<AttrType>(i);
  return kAtInvalid;
}

/// Arguments and attributes; the text of what is wrong, or "".
std::string fillSignature(const manifest::PythonOp &op, OpDef *def) {
  std::set<std::string> names;
  auto add = [&](const auto &from, std::vector<user_op::ArgDef> *list) -> std::string {
    for (const manifest::Argument &a : from) {
      if (!isWord(a.name())) return "'" + a.name() + "' is no name of an argument";
      if (!names.insert(a.name()).second) return "'" + a.name() + "' is named twice";
      if (a.has_minimum() && a.minimum() < 0) return "'" + a.name() + "' has a negative minimum";
      list->push_back({a.name(), a.optional(), a.has_minimum() ? a.minimum() : 1, a.has_minimum(), {}});
    }
    return "";
  };
  if (std::string why = add(op.input(), &def->inputs); !why.empty()) return why;
  if (std::string why = add(op.output(), &def->outputs); !why.empty()) return why;
  for (const auto &a : op.attr()) {
    const AttrType type = attrTypeNamed(a.type());
    if (!isWord(a.name()) || !names.insert(a.name()).second) return "'" + a.name() + "' cannot name an attribute";
    if (type == kAtInvalid) return "attribute '" + a.name() + "' has the type '" + a.type() + "', which is none";
    const AttrValue value = wire::fromProto(a.default_value());
    if (!value.empty() && value.type() != type) return "the default of '" + a.name() + "' is no " + a.type();
    def->attrs.push_back({a.name(), type, value, {}});
  }
  return "";
}

user_op::Case caseOf(const manifest::Case &from) {
  user_op::Case made;
  for (const auto &in : from.input())
    made.In(in.arg(), static_cast<DataType>(in.data_type()), Shape(DimVector(in.dim().begin(), in.dim().end())),
            in.lo(), in.hi(), in.index());
  for (const auto &attr : from.attr()) {
    const AttrValue value = wire::fromProto(attr.value());
    std::visit(
        [&](const auto &v) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(v)>, std::monostate> &&
                        !std::is_same_v<std::decay_t<decltype(v)>, RawAttr>)
            made.Attr(attr.key(), v);
        },
        value.variant());
  }
  return made;
}

Status bindPython(const user_op::OpKernel &kernel, user_op::KernelBindContext *ctx,
                  std::unique_ptr<user_op::BoundKernel> *task) {
  OPC_ASSIGN_OR_RETURN(KernelHost * host, kernelHost(ctx->op_type_name()));
  return host->bind(kernel, ctx, task);
}
Status callPython(user_op::BoundKernel &task, DeviceCtx *ctx) {
  return static_cast<PythonTask &>(task).call(ctx, KernelTask::isFollowed());
}

user_op::KernelDef kernelOf(const manifest::PythonOp &op, const std::shared_ptr<const OpCode> &code,
                            const user_op::Origin &origin) {
  user_op::KernelDef def;
  def.opType = op.name();
  def.origin = origin;
  def.condition = user_op::HobDeviceType() == DeviceType::kCPU;
  def.hasState = !op.pure();
  def.create = [code](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) -> Status {
    OPC_ASSIGN_OR_RETURN(KernelHost * host, kernelHost(code->op));
    return host->create(*code, out);
  };
  def.init = user_op::detail::kernelInit;
  def.bind = bindPython;
  def.compute = user_op::detail::kernelCompute;
  def.run = callPython;
  if (op.inplace_size() > 0)
    def.proposeInplace = [pairs = op.inplace()](const user_op::InferContext &,
                                                const user_op::AddInplaceArgPair &add) -> Maybe<void> {
      for (const auto &pair : pairs)
        if (Maybe<void> s = add(pair.output(), 0, pair.input(), 0, true); !s.status().isOk()) return s;
      return Maybe<void>::Ok();
    };
  return def;
}

std::shared_ptr<const OpCode> codeOf(const manifest::PythonOp &op, const OpDef &def) {
  auto code = std::make_shared<OpCode>();
  code->op = op.name();
  code->module = op.code().module();
  code->qualifiedName = op.code().qualified_name();
  code->contentHash = op.code().content_hash();
  code->file = op.code().file();
  code->line = op.code().line();
  code->inputs = def.inputs;
  code->outputs = def.outputs;
  for (const auto &a : def.attrs) code->attrs.push_back(a.name);
  code->written.assign(op.aux().begin(), op.aux().end());
  code->isolated = op.isolated();
  code->timeoutSeconds = op.timeout_s();
  return code;
}

/// Alike on every axis, counted from the right as numpy does: what is repeated along an axis is whole.
Maybe<void> cutAlike(user_op::SbpContext *ctx) {
  struct Cut {
    user_op::OpArg arg;
    const Shape *shape;
    bool isOutput;
  };
  std::vector<Cut> tensors;
  for (const auto &[arg, i] : ctx->inputs()) tensors.push_back({{arg, i}, &ctx->In(arg, i).shape(), false});
  for (const auto &[arg, i] : ctx->outputs()) tensors.push_back({{arg, i}, &ctx->Out(arg, i).shape(), true});
  int64_t rank = 0;
  for (const Cut &t : tensors) rank = std::max(rank, t.shape->NumAxes());
  for (int64_t back = rank; back > 0; --back) {
    const auto sizeOf = [back](const Cut &t) {
      return t.shape->NumAxes() < back ? 1 : t.shape->At(t.shape->NumAxes() - back);
    };
    int64_t size = 1;
    for (const Cut &t : tensors) size = std::max(size, sizeOf(t));
    auto builder = ctx->NewBuilder();
    bool isRead = false, isMade = true;
    for (const Cut &t : tensors) {
      const bool has = t.shape->NumAxes() >= back && sizeOf(t) == size;
      if (t.isOutput)
        isMade &= has;
      else
        isRead |= has;
      if (has) builder.Split(t.arg, t.shape->NumAxes() - back);
    }
    if (isRead && isMade) builder.Build();
  }
  return Maybe<void>::Ok();
}

/// How its tensors may be cut: alike on every axis, or as a rule over axes says; else all whole.
void fillSharding(const manifest::PythonOp &op, OpDef *def) {
  if (op.elementwise()) def->getSbp = cutAlike;
  if (!op.sharding().empty()) def->sharding = user_op::ShardingRule(op.sharding());
}

void fillModifiers(const std::shared_ptr<const manifest::PythonOp> &op, OpDef *def) {
  if (op->aux_size() > 0 || op->no_grad_size() > 0)
    def->modifyInputs = [op](const user_op::GetInputArgModifier &get, const user_op::UserOpConfWrapper &conf) {
      for (const std::string &name : op->aux())
        for (int32_t i = 0; i < conf.input_size(name); ++i)
          get(name, i)->set_is_mutable(true), get(name, i)->set_requires_grad(false);
      for (const std::string &name : op->no_grad())
        for (int32_t i = 0; i < conf.input_size(name); ++i) get(name, i)->set_requires_grad(false);
    };
  if (op->non_differentiable_size() > 0)
    def->modifyOutputs = [op](const user_op::GetOutputArgModifier &get, const user_op::UserOpConfWrapper &conf) {
      for (const std::string &name : op->non_differentiable())
        for (int32_t i = 0; i < conf.output_size(name); ++i) get(name, i)->set_requires_grad(false);
    };
}

Status addOp(const std::shared_ptr<const manifest::PythonOp> &op, const std::string &where,
             user_op::PendingRegistrations *out) {
  if (!isQualified(op->name()))
    return wrong(where, "'" + op->name() + "' is no name of an operator in a namespace, as demo::relu is");
  const user_op::Origin origin{op->code().file(), op->code().line(), OPC_SDK_API_VERSION, ""};
  user_op::OpRegistry registry(op->name(), origin.file.c_str(), origin.line);
  OpDef &def = registry.def();
  std::string why = fillSignature(*op, &def);
  if (why.empty()) why = wrongRules(*op, def);
  if (!why.empty()) return wrong(where, "op '" + op->name() + "': " + why);
  const auto code = codeOf(*op, def);
  def.doc = op->doc();
  def.inferTensorDesc = inferenceRule(op, code);
  def.cpuOnly = true;
  def.said = op->pure() ? user_op::Purity::kPure : user_op::Purity::kImpure;
  def.gradientOf.assign(op->gradient_of().begin(), op->gradient_of().end());
  def.noGrad = !op->no_gradient().empty();
  def.noGradReason = op->no_gradient();
  fillSharding(*op, &def);
  fillModifiers(op, &def);
  std::vector<user_op::Case> cases;
  for (const auto &c : op->case_()) cases.push_back(caseOf(c));
  registry.Cases(std::move(cases));
  def.kernels.push_back(kernelOf(*op, code, origin));
  out->ops.push_back(def);
  if (op->has_gradient()) out->grads.push_back(gradientRuleOf(op, origin));
  return Status::ok();
}

Result<LoadedPlugin> openManifest(const std::string &path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return Status(StatusCode::kUsage, "OPC0706", "cannot read the manifest of operators " + path);
  if (size > kMaxBytes) return wrong(path, "it has " + std::to_string(size) + " bytes");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  LoadedPlugin plugin;
  plugin.info.path = path;
  plugin.info.apiVersion = OPC_SDK_API_VERSION;
  plugin.info.source = path;
  OPC_ASSIGN_OR_RETURN(plugin.registrations, manifestOps(text, path));
  return plugin;
}

Result<LoadedPlugin> openFolder(const std::string &path) {
  const std::string folder = path.substr(pythonFolder("").size());
  OPC_ASSIGN_OR_RETURN(KernelHost * host, kernelHost(folder));
  OPC_ASSIGN_OR_RETURN(const std::string text, host->describe(folder));
  LoadedPlugin plugin;
  plugin.info.path = path;
  plugin.info.apiVersion = OPC_SDK_API_VERSION;
  plugin.info.source = folder;
  OPC_ASSIGN_OR_RETURN(plugin.registrations, manifestOps(text, folder));
  return plugin;
}

} // namespace

Result<user_op::PendingRegistrations> manifestOps(const std::string &text, const std::string &where) {
  manifest::Manifest parsed;
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  if (!parser.ParseFromString(text, &parsed)) return wrong(where, error.text);
  if (parsed.version() != kVersion)
    return wrong(where, "it is of version " + std::to_string(parsed.version()) + ", and this opc reads version " +
                            std::to_string(kVersion));
  user_op::PendingRegistrations pending;
  for (manifest::PythonOp &op : *parsed.mutable_op()) {
    if (op.output_size() == 0) op.set_pure(false); // what it does shows elsewhere
    OPC_RETURN_IF_ERROR(addOp(std::make_shared<const manifest::PythonOp>(op), where, &pending));
  }
  return pending;
}

std::string manifestBeside(const std::string &graph) {
  return fs::path(graph).replace_extension("").string() + std::string(kManifestEnding);
}

std::string findManifest(const std::string &graph) {
  std::error_code error;
  if (graph.empty() || graph == "-") return "";
  const std::string path = manifestBeside(graph);
  return fs::is_regular_file(path, error) ? path : "";
}

void openPythonPlugins() {
  // Where a definition was read says nothing of the operator, and moves with the graph.
  const std::string library = "python";
  setPluginOpener({"manifest", [](const std::string &path) { return path.ends_with(kManifestEnding); }, openManifest,
                   library, true});
  setPluginOpener({"python folder", [](const std::string &path) { return path.rfind(pythonFolder(""), 0) == 0; },
                   openFolder, library, true});
}

} // namespace opc::python
