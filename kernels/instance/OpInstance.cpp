// Completing, checking and inferring one op against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "OpInstance.h"
#include "BuiltIn.h"
#include "HostContexts.h"
#include "NearestNames.h"
#include "PluginCode.h"
#include "TextParts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace opc {

using user_op::ArgBinding;
using user_op::ArgDef;
using user_op::AttrDef;
using user_op::KernelDef;
using user_op::OpConf;
using user_op::OpDef;
using user_op::TensorDesc;

namespace {

// Far above any op, low enough that what looks at each pair of them ends soon.
constexpr size_t kMaxTensors = 1 << 14;

Status invalid(const char *id, std::string message, std::string help = "") {
  return Status(StatusCode::kInvalidGraph, id, std::move(message)).withHelp(std::move(help));
}

template <class Def> std::string suggestion(const std::string &name, const std::vector<Def> &defs) {
  const std::vector<std::string> names = namesOf(defs);
  return didYouMean(name, names, names.empty() ? "the op has none" : "the op has: " + joined(names, ", "), "'");
}

/// Puts the bindings of one direction into definition order and checks their counts.
Status completeArgs(const OpDef &def, const std::vector<ArgDef> &defs, bool isInput, OpConf *conf) {
  std::vector<ArgBinding> &given = isInput ? conf->inputs : conf->outputs;
  const char *direction = isInput ? "input" : "output";
  const auto fits = [](const ArgBinding &b, const ArgDef &arg) {
    const auto count = static_cast<int32_t>(b.tensors.size());
    return b.name == arg.name && count > 0 && (count == arg.count || (arg.atLeast && count >= arg.count));
  };
  // The common case costs nothing: already complete and in order.
  if (std::equal(given.begin(), given.end(), defs.begin(), defs.end(), fits)) return Status::ok();
  std::vector<ArgBinding> ordered;
  ordered.reserve(defs.size());
  std::vector<bool> used(given.size(), false);
  for (const ArgDef &arg : defs) {
    ArgBinding *found = nullptr;
    for (size_t i = 0; i < given.size(); ++i) {
      const bool matches = given[i].name == arg.name ||
                           std::find(arg.aliases.begin(), arg.aliases.end(), given[i].name) != arg.aliases.end();
      if (!matches || used[i]) continue;
      if (found) return invalid("OPC0106", def.name + ": " + direction + " '" + arg.name + "' is given twice");
      found = &given[i];
      used[i] = true;
    }
    const int32_t count = found ? static_cast<int32_t>(found->tensors.size()) : 0;
    if (count == 0) {
      if (isInput && !arg.optional) {
        const std::string missing = def.name + ": input '" + arg.name + "' is missing";
        for (const ArgBinding &b : given) // it may stand there under another name
          if (!b.name.empty() && !def.findInput(b.name) && b.name != "UserSourceOpTickInput")
            return invalid("OPC0202", missing + ", and there is no input '" + b.name + "'", suggestion(b.name, defs));
        return invalid("OPC0202", missing, "add input { key: \"" + arg.name + "\" value { s: \"OP/out_0\" } }");
      }
      if (!isInput && !arg.optional) {
        ArgBinding made{arg.name, {}};
        for (int32_t i = 0; i < arg.count; ++i)
          made.tensors.push_back(conf->name + "/" + arg.name + "_" + std::to_string(i));
        ordered.push_back(std::move(made));
      }
      continue;
    }
    if (count != arg.count && !(arg.atLeast && count >= arg.count))
      return invalid("OPC0202", def.name + ": " + direction + " '" + arg.name + "' takes " +
                                    (arg.atLeast ? "at least " : "") + std::to_string(arg.count) + " tensor" +
                                    (arg.count == 1 ? "" : "s") + ", the graph gives " + std::to_string(count));
    found->name = arg.name;
    ordered.push_back(std::move(*found));
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!used[i]) {
      // OneFlow gives source ops a hidden tick input; it orders execution, which the plan does by itself.
      if (isInput && given[i].name == "UserSourceOpTickInput") continue;
      return invalid("OPC0202", def.name + ": no " + direction + " '" + given[i].name + "'",
                     suggestion(given[i].name, defs));
    }
  given = std::move(ordered);
  return Status::ok();
}

/// The field of a graph file for a type, as its author knows it: kAtListInt32 is at_list_int32.
std::string fieldOf(AttrType type) {
  std::string field;
  for (const char *c = attrTypeName(type) + 1; *c; ++c) { // without the k
    if (std::isupper(static_cast<unsigned char>(*c)) && !field.empty()) field += '_';
    field += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  return field;
}
/// Whether the field's value is a message.
bool hasBraces(AttrType type) {
  return type == kAtShape || (type >= kAtListInt32 && type <= kAtListString) || type == kAtListStride;
}

/// The attributes under their names of now and with their types.
Status convertAttrs(const OpDef &def, OpConf *conf) {
  std::map<std::string, AttrValue> complete;
  for (auto &[name, value] : conf->attrs) {
    const AttrDef *attr = def.findAttr(name);
    if (!attr) return invalid("OPC0205", def.name + ": no attribute '" + name + "'", suggestion(name, def.attrs));
    AttrValue v = value;
    if (v.type() != attr->type) {
      // Text written by hand often has the neighbouring kind; a lossless one is taken.
      if (const auto *f = v.get<float>(); f && attr->type == kAtDouble)
        v = AttrValue(static_cast<double>(*f));
      else if (const auto *i = v.get<int32_t>(); i && attr->type == kAtInt64)
        v = AttrValue(static_cast<int64_t>(*i));
      else if (const auto *l = v.get<int64_t>(); l && attr->type == kAtInt32 && *l == static_cast<int32_t>(*l))
        v = AttrValue(static_cast<int32_t>(*l));
      else if (const auto *d = v.get<double>(); d && attr->type == kAtFloat) {
        const auto narrow = static_cast<float>(*d);
        if (std::isinf(narrow) && !std::isinf(*d)) {
          char number[32];
          std::snprintf(number, sizeof(number), "%g", *d);
          return invalid("OPC0205",
                         def.name + ": attribute '" + name + "' has " + number + ", which at_float does not hold",
                         "f32 ends at 3.40282e+38");
        }
        v = AttrValue(narrow);
      } else if (const auto *li = v.get<std::vector<int32_t>>(); li && attr->type == kAtListInt64)
        v = AttrValue(std::vector<int64_t>(li->begin(), li->end()));
      else if (const auto *ll = v.get<std::vector<int64_t>>();
               ll && attr->type == kAtListInt32 &&
               std::all_of(ll->begin(), ll->end(), [](int64_t x) { return x == static_cast<int32_t>(x); })) {
        std::vector<int32_t> narrow;
        for (int64_t x : *ll) narrow.push_back(static_cast<int32_t>(x));
        v = AttrValue(std::move(narrow));
      } else
        return invalid("OPC0205",
                       def.name + ": attribute '" + name + "' is " + fieldOf(v.type()) + ", it should be " +
                           fieldOf(attr->type),
                       "write value { " + fieldOf(attr->type) + (hasBraces(attr->type) ? " { ... } }" : ": ... }"));
    }
    if (!complete.emplace(attr->name, std::move(v)).second)
      return invalid("OPC0106", def.name + ": attribute '" + attr->name + "' is given twice");
  }
  conf->attrs = std::move(complete);
  return Status::ok();
}

Status completeAttrs(const OpDef &def, OpConf *conf) {
  const auto isAsDefined = [&](const auto &given) {
    const AttrDef *attr = def.findAttr(given.first);
    return attr && attr->name == given.first && attr->type == given.second.type();
  };
  if (!std::all_of(conf->attrs.begin(), conf->attrs.end(), isAsDefined)) OPC_RETURN_IF_ERROR(convertAttrs(def, conf));
  for (const AttrDef &attr : def.attrs) {
    if (conf->attrs.count(attr.name)) continue;
    if (attr.defaultValue.empty())
      return invalid("OPC0205",
                     def.name + ": attribute '" + attr.name + "' (" + fieldOf(attr.type) + ") must be given");
    conf->attrs.emplace(attr.name, attr.defaultValue);
  }
  return Status::ok();
}

void flatten(const std::vector<ArgBinding> &bindings, user_op::ArgList *out) {
  for (const ArgBinding &b : bindings)
    for (size_t i = 0; i < b.tensors.size(); ++i) out->push_back({b.name, static_cast<int32_t>(i)});
}
/// Position in the flat list: arguments are few, their tensors may be thousands (add_n).
int findArg(const std::vector<ArgBinding> &bindings, const std::string &arg, int32_t index) {
  int offset = 0;
  for (const ArgBinding &b : bindings) {
    const int count = static_cast<int>(b.tensors.size());
    if (b.name == arg) return index >= 0 && index < count ? offset + index : -1;
    offset += count;
  }
  return -1;
}

Status checkOutput(const OpDef &def, const std::pair<std::string, int32_t> &arg, const TensorDesc &desc) {
  const std::string name = def.name + ": output '" + arg.first + "'";
  if (desc.shape().NumAxes() > kMaxRank)
    return invalid("OPC0206", name + " has rank " + std::to_string(desc.shape().NumAxes()) +
                                  " after the shape rule; the limit is " + std::to_string(kMaxRank));
  for (int64_t d : desc.shape())
    if (d < 0)
      return invalid("OPC0206", name + " has the shape " + desc.shape().ToString() +
                                    " after the shape rule; dimensions cannot be negative");
  if (desc.is_dynamic() || desc.is_tensor_list())
    return invalid("OPC0210",
                   name + " is declared " + (desc.is_dynamic() ? "dynamic" : "a tensor list") +
                       " by the shape rule; what a tensor holds is fixed before the graph runs",
                   "give it its largest size, and the true count as an output of its own");
  if (!isTensorDataType(desc.data_type()))
    return invalid("OPC0204", name + " has the dtype " + dataTypeName(desc.data_type()) + " after the shape rule",
                   "set it in SetTensorDescInferFn or SetDataTypeInferFn");
  if (auto bytes = tensorBytes(desc); !bytes) return Status(bytes.status());
  return Status::ok();
}

} // namespace

Status completeOpConf(const OpDef &def, OpConf *conf) {
  conf->type = def.name;
  OPC_RETURN_IF_ERROR(completeArgs(def, def.inputs, true, conf));
  OPC_RETURN_IF_ERROR(completeArgs(def, def.outputs, false, conf));
  size_t tensors = 0;
  for (const auto *list : {&conf->inputs, &conf->outputs})
    for (const auto &binding : *list) tensors += binding.tensors.size();
  if (tensors > kMaxTensors)
    return invalid("OPC0202",
                   def.name + ": " + std::to_string(tensors) + " inputs and outputs; one op has at most " +
                       std::to_string(kMaxTensors),
                   "make several ops of it, each on a part of the tensors");
  return completeAttrs(def, conf);
}

Result<int64_t> tensorBytes(const TensorDesc &desc) {
  int64_t n = static_cast<int64_t>(GetSizeOfDataType(desc.data_type()));
  bool zero = false;
  for (int64_t d : desc.shape()) zero |= d == 0;
  if (zero) return int64_t{0};
  for (int64_t d : desc.shape())
    if (d < 0 || __builtin_mul_overflow(n, d, &n))
      return invalid("OPC0206", "a tensor of type " + desc.toString() + " is larger than 2^63 bytes");
  return n;
}

OpInstance::OpInstance(const OpDef &def, OpConf conf) : def_(&def), wrapper_(std::move(conf)) {
  flatten(wrapper_.conf().inputs, &inputArgs_);
  flatten(wrapper_.conf().outputs, &outputArgs_);
  inputDescs_.resize(inputArgs_.size());
  outputDescs_.resize(outputArgs_.size());
}

int OpInstance::findInput(const std::string &arg, int32_t index) const { return findArg(conf().inputs, arg, index); }
int OpInstance::findOutput(const std::string &arg, int32_t index) const { return findArg(conf().outputs, arg, index); }

Status OpInstance::infer() {
  auto named = [&](Status s, const char *fallbackId) {
    if (s.id().empty()) s = std::move(s).withId(fallbackId);
    // Rules say what is wrong; which op it is, is ours to say.
    if (s.message().rfind(def_->name + ": ", 0) != 0)
      s = Status(s.code() == StatusCode::kExecution ? StatusCode::kInvalidGraph : s.code(), s.id(),
                 def_->name + ": " + s.message())
              .withHelp(s.help());
    return s;
  };
  const PluginRule here(def_->name, def_->origin);
  if (def_->checkAttr) {
    Maybe<void> ok = def_->checkAttr(user_op::UserOpDefWrapper(*def_), wrapper_);
    if (!ok.IsOk()) return named(ok.status(), "OPC0205");
  }
  if (!inputDescs_.empty())
    for (TensorDesc &d : outputDescs_) d = inputDescs_[0];
  // A rule may scribble over its input descriptors (OneFlow's mini_decoder does): it gets copies.
  std::vector<TensorDesc> inputs = inputDescs_;
  HostInferContext ctx(*this, &inputs, &outputDescs_);
  Maybe<void> ok = def_->inferTensorDesc(&ctx);
  if (!ok.IsOk()) return named(ok.status(), "OPC0203");
  if (def_->inferDataType) {
    ok = def_->inferDataType(&ctx);
    if (!ok.IsOk()) return named(ok.status(), "OPC0204");
  }
  for (size_t i = 0; i < outputDescs_.size(); ++i)
    OPC_RETURN_IF_ERROR(checkOutput(*def_, outputArgs_[i], outputDescs_[i]));
  return Status::ok();
}

Result<const KernelDef *> OpInstance::selectKernel(const Registry &registry, DeviceType device) const {
  HostRegContext ctx(*this, device);
  const auto &candidates = registry.kernels(def_->name);
  const KernelDef *found = nullptr;
  for (const KernelDef *k : candidates) { // the highest priority first
    if (found && (k->priority < found->priority || (isBuiltIn(k->origin) && isBuiltIn(found->origin)))) continue;
    bool matches = false;
    const PluginRule here(def_->name, k->origin, "the condition of a kernel");
    Status evaluated = user_op::detail::guarded([&] { return matches = k->condition->eval(ctx), Status(); });
    if (!evaluated.isOk())
      return Status(StatusCode::kUnsupported, "OPC0411",
                    "the condition of a kernel for \"" + def_->name + "\" failed: " + evaluated.message() + " (" +
                        whereRegistered(k->origin) + ")")
          .withHelp("correct what KernelOptions().When or SetIsMatchedHob asks for; the names are those of the op's "
                    "definition");
    if (!matches) continue;
    if (!found) {
      found = k;
      continue;
    }
    return Status(StatusCode::kUnsupported, "OPC0417",
                  "two " + std::string(DeviceTag(device)) + " kernels for \"" + def_->name +
                      "\" fit equally well: " + whereRegistered(found->origin) + ": " + found->condition->text() +
                      "; and " + whereRegistered(k->origin) + ": " + k->condition->text())
        .withHelp("give the one that is to run a higher priority: SetPriority, or KernelOptions().Priority(10)");
  }
  if (found) return found;
  std::string types;
  for (const TensorDesc &d : inputDescs_)
    types += (types.empty() ? "" : ", ") + std::string(dataTypeName(d.data_type()));
  std::string message = std::string("no ") + DeviceTag(device) + " kernel for \"" + def_->name + "\"" +
                        (types.empty() ? "" : " with inputs " + types);
  // Kernels of another device are of interest where this one has none.
  const auto isHere = [&](const KernelDef *k) {
    const std::string of = kernelTarget(*k).device;
    return of.empty() || of == DeviceTag(device);
  };
  const bool listsAll = std::none_of(candidates.begin(), candidates.end(), isHere);
  std::string help;
  for (const KernelDef *k : candidates) {
    if (!listsAll && !isHere(k)) continue;
    const KernelTarget t = kernelTarget(*k);
    help += (help.empty() ? "" : "\n") + def_->name + "/" + (t.device.empty() ? "any" : t.device) + "/" +
            (t.dtype.empty() ? "any" : t.dtype) + ": " + k->condition->firstFailure(ctx) + " (" +
            libraryText(k->origin) + ")";
  }
  if (help.empty()) help = "no kernel of this op is registered; load the plugin that has one with --plugin";
  return Status(StatusCode::kUnsupported, "OPC0411", message).withHelp(help);
}

Result<uint64_t> OpInstance::tmpSize(const KernelDef &kernel) const {
  if (!kernel.inferTmpSize) return uint64_t{0};
  std::vector<TensorDesc> inputs = inputDescs_, outputs = outputDescs_;
  HostInferContext ctx(*this, &inputs, &outputs);
  uint64_t size = 0;
  const PluginRule here(def_->name, kernel.origin, "the function for temporary memory");
  if (Status s = user_op::detail::guarded([&] { return size = kernel.inferTmpSize(&ctx), Status(); }); !s)
    return Status(StatusCode::kInvalidGraph, "OPC0412",
                  def_->name + ": the kernel's function for temporary memory failed: " + s.message())
        .withHelp("correct it where the kernel is registered (SetInferTmpSizeFn, TmpSize)");
  if (size > (uint64_t{1} << 46))
    return Status(StatusCode::kUnsupported, "OPC0412",
                  def_->name + ": the kernel asks for " + std::to_string(size) + " bytes of temporary memory");
  return size;
}

Result<std::vector<std::pair<int, int>>> OpInstance::inplaceProposal(const KernelDef &kernel) const {
  std::vector<std::pair<int, int>> pairs;
  if (!kernel.proposeInplace) return pairs;
  const auto wrong = [&](const std::string &what) {
    return Status(StatusCode::kInvalidGraph, "OPC0412",
                  def_->name + ": the kernel's proposal of results in place " + what)
        .withHelp("correct it where the kernel is registered (SetInplaceProposalFn, Inplace)");
  };
  std::vector<TensorDesc> inputs = inputDescs_, outputs = outputDescs_;
  HostInferContext ctx(*this, &inputs, &outputs);
  std::string unknown;
  auto add = [&](const std::string &out, int32_t oi, const std::string &in, int32_t ii, bool) -> Maybe<void> {
    const int o = findOutput(out, oi), i = findInput(in, ii);
    if (o >= 0 && i >= 0) pairs.push_back({o, i});
    // What this instance has no tensor for may be an argument of others.
    if (!def_->findOutput(out)) unknown = "names '" + out + "', which is no output of the op";
    if (!def_->findInput(in)) unknown = "names '" + in + "', which is no input of the op";
    return Maybe<void>::Ok();
  };
  const PluginRule here(def_->name, kernel.origin, "the proposal of results in place");
  const Status ok = user_op::detail::guarded([&] { return kernel.proposeInplace(ctx, add).status(); });
  if (!ok) return wrong("failed: " + ok.message());
  if (!unknown.empty()) return wrong(unknown);
  return pairs;
}

std::vector<std::pair<int, int>> OpInstance::inplacePairs(const KernelDef &kernel) const {
  auto pairs = inplaceProposal(kernel);
  return pairs ? *std::move(pairs) : std::vector<std::pair<int, int>>();
}

} // namespace opc
