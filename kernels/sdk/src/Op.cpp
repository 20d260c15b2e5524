// Lookups in definitions and configurations, ready-made rules, and the list of pending registrations.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

#include <algorithm>
#include <iterator>

namespace opc {

std::string SbpParallel::toString() const {
  switch (kind_) {
  case kSplit: return "S(" + std::to_string(axis_) + ")";
  case kBroadcast: return "B";
  case kPartialSum: return "P";
  case kUnset: break;
  }
  return "unset";
}

void SbpSignature::set(const std::string &arg, int32_t index, SbpParallel state) {
  for (auto &s : states)
    if (s.first.first == arg && s.first.second == index) {
      s.second = state;
      return;
    }
  states.push_back({{arg, index}, state});
}

const SbpParallel *SbpSignature::find(const std::string &arg, int32_t index) const {
  for (const auto &s : states)
    if (s.first.first == arg && s.first.second == index) return &s.second;
  return nullptr;
}

std::map<std::string, SbpParallel> SbpSignature::bn_in_op2sbp_parallel() const {
  std::map<std::string, SbpParallel> byName;
  for (const auto &[arg, state] : states) byName[arg.first + "_" + std::to_string(arg.second)] = state;
  return byName;
}

SbpParallel &SbpSignature::operator[](const std::string &argAndIndex) {
  const size_t at = argAndIndex.rfind('_');
  if (at == std::string::npos || argAndIndex.find_first_not_of("0123456789", at + 1) != std::string::npos ||
      at + 1 == argAndIndex.size() || argAndIndex.size() - at > 9)
    throw ContractError("'" + argAndIndex + "' is no argument with an index, as in_0 is");
  const std::string arg = argAndIndex.substr(0, at);
  const int32_t index = std::stoi(argAndIndex.substr(at + 1));
  if (!find(arg, index)) set(arg, index, SbpParallel());
  return const_cast<SbpParallel &>(*find(arg, index));
}

namespace user_op {
namespace {
template <class Def> const Def *findNamed(const std::vector<Def> &list, const std::string &name) {
  for (const Def &d : list)
    if (d.name == name) return &d;
  for (const Def &d : list)
    if (std::find(d.aliases.begin(), d.aliases.end(), name) != d.aliases.end()) return &d;
  return nullptr;
}
const ArgBinding *findBinding(const std::vector<ArgBinding> &list, const std::string &name) {
  for (const ArgBinding &b : list)
    if (b.name == name) return &b;
  return nullptr;
}
const std::string &boundTensor(const ArgBinding *b, const std::string &arg, int32_t index) {
  if (!b || index < 0 || index >= static_cast<int32_t>(b->tensors.size()))
    throw ContractError("no argument '" + arg + "' with index " + std::to_string(index));
  return b->tensors[static_cast<size_t>(index)];
}
} // namespace

const ArgBinding *OpConf::findInput(const std::string &arg) const { return findBinding(inputs, arg); }
const ArgBinding *OpConf::findOutput(const std::string &arg) const { return findBinding(outputs, arg); }

int32_t UserOpConfWrapper::input_size(const std::string &arg) const {
  const ArgBinding *b = conf_.findInput(arg);
  return b ? static_cast<int32_t>(b->tensors.size()) : 0;
}
int32_t UserOpConfWrapper::output_size(const std::string &arg) const {
  const ArgBinding *b = conf_.findOutput(arg);
  return b ? static_cast<int32_t>(b->tensors.size()) : 0;
}
const std::string &UserOpConfWrapper::input(const std::string &arg, int32_t index) const {
  return boundTensor(conf_.findInput(arg), arg, index);
}
const std::string &UserOpConfWrapper::output(const std::string &arg, int32_t index) const {
  return boundTensor(conf_.findOutput(arg), arg, index);
}

const std::string &UserOpDefWrapper::name() const { return def_->name; }
bool UserOpDefWrapper::IsInputArgName(const std::string &n) const { return def_->findInput(n) != nullptr; }
bool UserOpDefWrapper::IsOutputArgName(const std::string &n) const { return def_->findOutput(n) != nullptr; }
bool UserOpDefWrapper::IsAttrName(const std::string &n) const { return def_->findAttr(n) != nullptr; }
bool UserOpDefWrapper::IsArgOptional(const std::string &n) const {
  const ArgDef *a = def_->findInput(n);
  if (!a) a = def_->findOutput(n);
  return a && a->optional;
}
AttrType UserOpDefWrapper::GetAttrType(const std::string &n) const {
  const AttrDef *a = def_->findAttr(n);
  return a ? a->type : kAtInvalid;
}

const ArgDef *OpDef::findInput(const std::string &n) const { return findNamed(inputs, n); }
const ArgDef *OpDef::findOutput(const std::string &n) const { return findNamed(outputs, n); }
const AttrDef *OpDef::findAttr(const std::string &n) const { return findNamed(attrs, n); }

OpRegistry &OpRegistry::ArgAlias(const std::string &alias, const std::string &name) {
  bool isKnown = false;
  const auto add = [&](auto &list) {
    for (auto &a : list)
      if (a.name == name) a.aliases.push_back(alias), isKnown = true;
  };
  add(def_.inputs);
  add(def_.outputs);
  add(def_.attrs);
  // A static registrar has nobody to report to: the registry finds this and refuses the op.
  if (!isKnown) def_.attrs.push_back({"", kAtInvalid, {}, {alias, name}});
  return *this;
}

OpRegistry &OpRegistry::Cases(std::vector<Case> cases) {
  def_.cases.insert(def_.cases.end(), std::make_move_iterator(cases.begin()), std::make_move_iterator(cases.end()));
  return *this;
}

UserOpConfWrapperBuilder &UserOpConfWrapperBuilder::InputBind(const std::string &arg, const std::string &tensor) {
  for (ArgBinding &b : conf_.inputs)
    if (b.name == arg) {
      b.tensors.push_back(tensor);
      return *this;
    }
  conf_.inputs.push_back({arg, {tensor}});
  return *this;
}

UserOpConfWrapperBuilder &UserOpConfWrapperBuilder::Output(const std::string &arg, int32_t num) {
  ArgBinding b{arg, {}};
  for (int32_t i = 0; i < num; ++i) b.tensors.push_back(conf_.name + "/" + arg + "_" + std::to_string(i));
  conf_.outputs.push_back(std::move(b));
  return *this;
}

void BackwardOpConfContext::DefineOp(const std::string &name, const BackwardOpBuilderFn &build) {
  if (!definitions_.emplace(name, build).second) throw ContractError("op_name " + name + " has been defined.");
}

UserOpConfWrapper &BackwardOpConfContext::GetOp(const std::string &name) {
  auto built = built_.find(name);
  if (built != built_.end()) return built->second;
  auto definition = definitions_.find(name);
  if (definition == definitions_.end()) throw ContractError("op_name " + name + " has not been defined.");
  BackwardOpBuilder builder(name);
  OpConf conf = definition->second(builder).conf();
  Status emitted = host_->emit(&conf);
  if (!emitted.isOk()) throw ContractError(emitted.message());
  return built_.emplace(name, UserOpConfWrapper(std::move(conf))).first->second;
}

Maybe<void> TensorDescInferFnUtil::Unchanged(InferContext *ctx) {
  if (ctx->inputs().empty()) return Error::CheckFailed() << "the op has no input whose shape could be taken";
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex(ctx->inputs()[0].first, ctx->inputs()[0].second);
  for (const auto &o : ctx->outputs()) *ctx->TensorDesc4ArgNameAndIndex(o.first, o.second) = in;
  return Maybe<void>::Ok();
}

Maybe<void> TensorDescInferFnUtil::InOutCorrespond(InferContext *ctx) {
  CHECK_EQ_OR_RETURN(ctx->inputs().size(), ctx->outputs().size());
  for (size_t i = 0; i < ctx->inputs().size(); ++i)
    *ctx->TensorDesc4ArgNameAndIndex(ctx->outputs()[i].first, ctx->outputs()[i].second) =
        *ctx->TensorDesc4ArgNameAndIndex(ctx->inputs()[i].first, ctx->inputs()[i].second);
  return Maybe<void>::Ok();
}

Maybe<void> BatchAxisInferFnUtil::DefaultAsFirstHasValueInput(BatchAxisContext *ctx) {
  OptInt64 axis;
  for (const auto &in : ctx->inputs()) {
    const OptInt64 *a = ctx->BatchAxis4ArgNameAndIndex(in.first, in.second);
    if (a->has_value()) {
      axis = *a;
      break;
    }
  }
  for (const auto &out : ctx->outputs()) *ctx->BatchAxis4ArgNameAndIndex(out.first, out.second) = axis;
  return Maybe<void>::Ok();
}

Maybe<void> GetSbpFnUtil::SplitForEachAxis(SbpContext *ctx) {
  if (ctx->inputs().empty()) return Maybe<void>::Ok();
  const auto &first = ctx->inputs()[0];
  const int64_t axes = ctx->LogicalTensorDesc4InputArgNameAndIndex(first.first, first.second).shape().NumAxes();
  for (int64_t i = 0; i < axes; ++i) ctx->NewBuilder().Split(ctx->inputs(), i).Split(ctx->outputs(), i).Build();
  return Maybe<void>::Ok();
}

PendingRegistrations &pendingRegistrations() {
  static PendingRegistrations list;
  return list;
}

} // namespace user_op
} // namespace opc

// What the host asks a plugin's copy of the SDK for. C names, so that dlsym finds them.
extern "C" {
__attribute__((visibility("default"))) int opcSdkApiVersion() { return OPC_SDK_API_VERSION; }
__attribute__((visibility("default"))) void *opcSdkPendingRegistrations() {
  return &opc::user_op::pendingRegistrations();
}
}
