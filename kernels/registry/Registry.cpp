// Registry: storage, look-up, freezing.
// SPDX-License-Identifier: Apache-2.0
#include "Registry.h"
#include "BuiltIn.h"
#include "DerivedGradient.h"
#include "DeviceKernels.h"
#include "NearestNames.h"
#include "PluginLibrary.h"
#include "PluginOverrides.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

namespace opc {

using user_op::GradDef;
using user_op::KernelDef;
using user_op::OpDef;

namespace {

/// Definitions as they came from one library, each where it stays: registries share those of the program itself.
struct Batch {
  explicit Batch(user_op::PendingRegistrations pending) : grads(std::move(pending.grads)) {
    for (KernelDef &k : pending.kernels) kernels.push_back(std::make_shared<KernelDef>(std::move(k)));
    for (OpDef &op : pending.ops) {
      auto &own = ops.emplace_back().kernels;
      for (KernelDef &k : std::exchange(op.kernels, {})) own.push_back(std::make_shared<KernelDef>(std::move(k)));
      ops.back().op = std::make_shared<OpDef>(std::move(op));
    }
  }
  struct Op {
    std::shared_ptr<OpDef> op; // its kernels lie here, not in it
    std::vector<std::shared_ptr<KernelDef>> kernels;
  };
  std::vector<Op> ops;
  std::vector<std::shared_ptr<KernelDef>> kernels; // of ops that others have defined
  std::vector<GradDef> grads;
};

/// Nothing is written that is there already: other threads may read it, in registries of their own.
template <typename T> void settle(T &value, const T &wanted) {
  if (value != wanted) value = wanted;
}

} // namespace

struct Registry::Impl {
  std::map<std::string, std::shared_ptr<OpDef>> ops;
  std::unordered_map<std::string, const OpDef *> byName; // names and aliases
  std::vector<std::shared_ptr<KernelDef>> kernelStore;
  std::unordered_map<std::string, std::vector<const KernelDef *>> kernels;
  std::map<std::string, std::unique_ptr<GradDef>> grads;
  std::vector<const OpDef *> sorted;
  std::vector<PluginInfo> plugins;

  /// Gradients of elementwise ops, by op and input, made when first asked for.
  struct Derived {
    std::unique_ptr<DerivedGradient> gradient; // null: zero
    Status status;
    std::vector<const KernelDef *> kernels;
  };
  std::mutex derivedMutex;
  std::map<std::pair<const OpDef *, int32_t>, Derived> derived;
  std::unordered_map<std::string, const Derived *> derivedByName;
  std::set<std::string> notDerived; // names that were searched in vain: a hostile name is not searched twice

  Status add(const Batch &batch, const std::string &library, PluginInfo *info);
  Status admit(const Batch &batch, const std::string &library, bool isPlugin);
  void name(const OpDef &op) {
    byName[op.name] = &op;
    for (const std::string &alias : op.aliases) byName[alias] = &op;
  }
  void addKernel(std::shared_ptr<KernelDef> kernel, const std::string &library, PluginInfo *info);
  const OpDef *find(const std::string &type) {
    auto it = byName.find(type);
    if (it != byName.end()) return it->second;
    const std::lock_guard<std::mutex> lock(derivedMutex);
    const Derived *found = findDerived(type);
    return found ? &found->gradient->def : nullptr;
  }

  /// The caller holds the mutex.
  const Derived &derive(const OpDef &op, int32_t input) {
    auto [it, fresh] = derived.try_emplace({&op, input});
    Derived &entry = it->second;
    if (!fresh) return entry;
    auto made = deriveGradientOp(op, input);
    if (!made) {
      entry.status = made.status();
    } else if (*made) {
      entry.gradient = std::move(*made);
      OpDef &def = entry.gradient->def;
      std::vector<const KernelDef *> own;
      for (const KernelDef &k : def.kernels) own.push_back(&k);
      for (KernelDef &k : deviceKernels(def, own)) def.kernels.push_back(std::move(k));
      for (KernelDef &k : def.kernels) {
        k.origin.library = op.origin.library;
        entry.kernels.push_back(&k);
      }
      derivedByName[entry.gradient->def.name] = &entry;
    }
    return entry;
  }

  /// "tanh_grad", "broadcast_pow_x_grad", "tanh_grad_x_grad": the longest op name that fits wins.
  const Derived *findDerived(const std::string &type) {
    static const std::string suffix = "_grad";
    if (type.size() <= suffix.size() || type.compare(type.size() - suffix.size(), suffix.size(), suffix) != 0)
      return nullptr;
    if (auto it = derivedByName.find(type); it != derivedByName.end()) return it->second;
    if (type.size() > 128 || notDerived.count(type)) return nullptr;
    const std::string stem = type.substr(0, type.size() - suffix.size());
    auto scalarOp = [&](const std::string &name) -> const OpDef * {
      auto it = byName.find(name);
      if (it != byName.end()) return it->second->scalar && it->second->name == name ? it->second : nullptr;
      const Derived *d = findDerived(name);
      return d ? &d->gradient->def : nullptr;
    };
    for (size_t cut = stem.size(); cut != std::string::npos && cut > 0; cut = stem.rfind('_', cut - 1)) {
      const OpDef *op = scalarOp(stem.substr(0, cut));
      if (!op) continue;
      for (size_t i = 0; i < op->inputs.size(); ++i) {
        if (derivedGradientName(*op, static_cast<int32_t>(i)) != type) continue;
        const Derived &d = derive(*op, static_cast<int32_t>(i));
        return d.gradient ? &d : nullptr;
      }
    }
    if (notDerived.size() > 4096) notDerived.clear();
    notDerived.insert(type);
    return nullptr;
  }
};

std::string whereRegistered(const user_op::Origin &o) {
  return libraryText(o) + ", " + o.file + ":" + std::to_string(o.line);
}

namespace {
/// Whether an op is held to be pure, and why: what its definition says, else what can be seen. Nothing that merges,
/// drops or computes ahead may touch an op that has something to lose by it.
std::pair<bool, std::string> purityOf(const OpDef &op, const std::vector<const KernelDef *> &kernels) {
  if (op.said != user_op::Purity::kUnsaid) return {op.said == user_op::Purity::kPure, "its definition says so"};
  for (const KernelDef *k : kernels)
    if (k->hasState) return {false, "its kernel (" + whereRegistered(k->origin) + ") makes a state"};
  if (op.outputs.empty()) return {false, "it has no outputs: what it does shows elsewhere"};
  if (std::all_of(op.inputs.begin(), op.inputs.end(), [](const user_op::ArgDef &a) { return a.optional; }))
    return {false, "it needs no inputs: a source"};
  return {true, "it has inputs and outputs, and no kernel of it makes a state"};
}

Status rejected(const char *id, const std::string &message, const std::string &help = "") {
  return Status(StatusCode::kUnsupported, id, message).withHelp(help);
}

Status tooLate(const std::string &library) {
  return Status(StatusCode::kInternal, "OPC0901", "the registry is frozen; " + library + " comes too late");
}
} // namespace

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;
Registry::Registry(Registry &&) noexcept = default;
Registry &Registry::operator=(Registry &&) noexcept = default;

Status Registry::addLinked() {
  if (frozen_) return tooLate(libraryText({}));
  // Hundreds of ops and thousands of kernels, the same ones for all registries. A library that the program has loaded
  // since the last one was made brings another batch.
  static std::mutex mutex;
  static std::vector<Batch> &batches = *new std::vector<Batch>;
  const std::lock_guard<std::mutex> lock(mutex);
  user_op::PendingRegistrations &list = user_op::pendingRegistrations();
  if (!list.ops.empty() || !list.kernels.empty() || !list.grads.empty()) batches.emplace_back(std::exchange(list, {}));
  for (const Batch &batch : batches) OPC_RETURN_IF_ERROR(impl_->add(batch, "", nullptr));
  return Status::ok();
}

Status Registry::add(user_op::PendingRegistrations pending, const std::string &library, PluginInfo *info) {
  return frozen_ ? tooLate(library) : impl_->add(Batch(std::move(pending)), library, info);
}

/// Graphs that leave the attribute out would all fail.
static Status checkDefaults(const OpDef &op) {
  static constexpr const char *kinds[] = {"",
                                          "int32_t",
                                          "int64_t",
                                          "bool",
                                          "float",
                                          "double",
                                          "std::string",
                                          "Shape",
                                          "DataType",
                                          "std::vector<int32_t>",
                                          "std::vector<int64_t>",
                                          "std::vector<float>",
                                          "std::vector<DataType>",
                                          "std::vector<Shape>",
                                          "std::vector<std::string>"};
  for (const user_op::AttrDef &attr : op.attrs) {
    const auto type = static_cast<size_t>(attr.type);
    if (attr.defaultValue.empty() || attr.defaultValue.type() == attr.type || type == 0 || type >= std::size(kinds))
      continue;
    return rejected("OPC0205",
                    "op '" + op.name + "': attribute '" + attr.name + "' is declared " + attrTypeName(attr.type) +
                        ", and its default " + attr.defaultValue.toString() + " is " +
                        attrTypeName(attr.defaultValue.type()) + " (" + whereRegistered(op.origin) + ")",
                    std::string("write .Attr<") + kinds[type] + ">(\"" + attr.name + "\", " +
                        attr.defaultValue.toString() + "), which converts it");
  }
  return Status::ok();
}

/// ArgAlias leaves a nameless attribute with both names where it finds nothing to name.
static Status checkAliases(const OpDef &op) {
  for (const user_op::AttrDef &attr : op.attrs)
    if (attr.name.empty() && attr.type == kAtInvalid && attr.aliases.size() == 2)
      return rejected("OPC0202",
                      "op '" + op.name + "': ArgAlias(\"" + attr.aliases[0] + "\", \"" + attr.aliases[1] +
                          "\") names no input, output or attribute that is declared before it (" +
                          whereRegistered(op.origin) + ")",
                      "the second name is the one that the definition has");
  return Status::ok();
}

/// A graph could never say which of the two it means.
static Status checkArguments(const OpDef &op) {
  const auto once = [&](const char *what, const auto &list) {
    std::set<std::string> known;
    for (const auto &item : list) {
      std::vector<std::string> names = item.aliases;
      names.push_back(item.name);
      for (const std::string &name : names)
        if (!known.insert(name).second)
          return rejected("OPC0903",
                          "op '" + op.name + "' has two " + what + "s '" + name + "' (" + whereRegistered(op.origin) +
                              ")",
                          "rename one of them; several tensors of one name are Input(name, count) or InputWithMinimum");
    }
    return Status::ok();
  };
  OPC_RETURN_IF_ERROR(once("input", op.inputs));
  OPC_RETURN_IF_ERROR(once("output", op.outputs));
  return once("attribute", op.attrs);
}

/// Checks everything first: a library that fails adds nothing.
Status Registry::Impl::admit(const Batch &batch, const std::string &library, bool isPlugin) {
  std::map<std::string, const user_op::Origin *> fresh;
  for (const auto &[op, own] : batch.ops) {
    settle(op->origin.library, library);
    if (!op->inferTensorDesc)
      return rejected("OPC0904", "op '" + op->name + "' has no shape rule (" + whereRegistered(op->origin) + ")",
                      "call SetTensorDescInferFn");
    OPC_RETURN_IF_ERROR(checkAliases(*op));
    if (isPlugin) {
      OPC_RETURN_IF_ERROR(checkArguments(*op));
      OPC_RETURN_IF_ERROR(checkDefaults(*op));
    }
    std::vector<std::string> names = {op->name};
    names.insert(names.end(), op->aliases.begin(), op->aliases.end());
    for (const std::string &name : names) {
      const OpDef *known = find(name);
      const user_op::Origin *other = known ? &known->origin : nullptr;
      if (!other && fresh.count(name)) other = fresh[name];
      if (other) {
        std::string help = "rename one of them, or load only one of the libraries";
        if (isBuiltIn(*other) && isPlugin) {
          help = "rename yours, or let it win: --plugin-overrides " + library;
          help.append(", or overrides=").append(library).append(" where plugins are listed");
        }
        return rejected("OPC0903",
                        "op '" + name + "' is registered twice: at " + whereRegistered(*other) + " and at " +
                            whereRegistered(op->origin),
                        help);
      }
      fresh[name] = &op->origin;
    }
  }
  for (const GradDef &g : batch.grads)
    if (auto known = grads.find(g.opType); known != grads.end()) {
      user_op::Origin origin = g.origin;
      origin.library = library;
      return rejected("OPC0903", "the gradient of '" + g.opType + "' is registered twice: at " +
                                     whereRegistered(known->second->origin) + " and at " + whereRegistered(origin));
    }
  return Status::ok();
}

void Registry::Impl::addKernel(std::shared_ptr<KernelDef> kernel, const std::string &library, PluginInfo *info) {
  settle(kernel->origin.library, library);
  if (const OpDef *op = find(kernel->opType)) settle(kernel->opType, op->name);
  if (info) info->kernels.push_back(kernel->opType);
  auto &list = kernels[kernel->opType];
  list.push_back(kernel.get());
  std::stable_sort(list.begin(), list.end(),
                   [](const KernelDef *a, const KernelDef *b) { return a->priority > b->priority; });
  kernelStore.push_back(std::move(kernel));
}

Status Registry::Impl::add(const Batch &batch, const std::string &library, PluginInfo *info) {
  OPC_RETURN_IF_ERROR(admit(batch, library, info != nullptr));
  for (const auto &[op, own] : batch.ops) {
    name(*op);
    if (info) info->ops.push_back(op->name);
    ops.emplace(op->name, op);
  }
  for (const auto &kernel : batch.kernels) addKernel(kernel, library, info);
  for (const auto &[op, own] : batch.ops) {
    std::vector<const KernelDef *> known;
    for (const auto &kernel : own) {
      settle(kernel->opType, op->name);
      known.push_back(kernel.get());
    }
    std::vector<KernelDef> more = deviceKernels(*op, known);
    for (const auto &kernel : own) addKernel(kernel, library, info);
    for (KernelDef &kernel : more) addKernel(std::make_shared<KernelDef>(std::move(kernel)), library, info);
  }
  for (const GradDef &g : batch.grads) {
    if (info) info->grads.push_back(g.opType);
    auto stored = std::make_unique<GradDef>(g);
    stored->origin.library = library;
    grads.emplace(g.opType, std::move(stored));
  }
  sorted.clear();
  for (auto &[type, op] : ops) {
    if (auto [pure, reason] = purityOf(*op, kernels[type]); pure != op->pure || reason != op->pureReason) {
      // Other registries, without the kernel of a plugin, go on with what they have concluded.
      if (!op->pureReason.empty() && op.use_count() > 1) name(*(op = std::make_shared<OpDef>(*op)));
      op->pure = pure, op->pureReason = std::move(reason);
    }
    sorted.push_back(op.get());
  }
  if (info)
    for (auto *list : {&info->ops, &info->kernels, &info->grads}) std::sort(list->begin(), list->end());
  return Status::ok();
}

Result<PluginInfo> Registry::loadPlugin(const std::string &plugin) {
  const std::string path = pluginPath(plugin);
  for (const PluginInfo &p : impl_->plugins)
    if (p.path == path) return p; // naming a library twice on the command line is not a conflict
  OPC_ASSIGN_OR_RETURN(LoadedPlugin loaded, openPlugin(path));
  if (const void *library = pluginLibrary(path))
    for (const PluginInfo &p : impl_->plugins)
      if (pluginLibrary(p.path) == library) return p; // under another path
  if (isOverriding(plugin)) OPC_RETURN_IF_ERROR(overrideNames(*this, path, &loaded.registrations));
  OPC_RETURN_IF_ERROR(add(std::move(loaded.registrations), path, &loaded.info));
  impl_->plugins.push_back(loaded.info);
  return loaded.info;
}

const OpDef *Registry::findOp(const std::string &type) const { return impl_->find(type); }
Result<const DerivedGradient *> Registry::derivedGradient(const OpDef &op, int32_t input) const {
  const std::lock_guard<std::mutex> lock(impl_->derivedMutex);
  const Impl::Derived &d = impl_->derive(op, input);
  if (!d.status.isOk()) return d.status;
  return d.gradient.get();
}
const GradDef *Registry::findGrad(const std::string &type) const {
  auto it = impl_->grads.find(type);
  return it == impl_->grads.end() ? nullptr : it->second.get();
}
const std::vector<const KernelDef *> &Registry::kernels(const std::string &type) const {
  static const std::vector<const KernelDef *> none;
  auto it = impl_->kernels.find(type);
  if (it != impl_->kernels.end()) return it->second;
  const std::lock_guard<std::mutex> lock(impl_->derivedMutex);
  const Impl::Derived *derived = impl_->findDerived(type);
  return derived ? derived->kernels : none;
}
const std::vector<const OpDef *> &Registry::ops() const { return impl_->sorted; }
const std::vector<PluginInfo> &Registry::plugins() const { return impl_->plugins; }

std::vector<std::string> Registry::nearest(const std::string &type, size_t count) const {
  std::vector<std::string> names;
  for (const OpDef *op : ops()) names.push_back(op->name);
  return nearestNames(type, names, count);
}

KernelTarget kernelTarget(const KernelDef &kernel) {
  KernelTarget target;
  kernel.condition->requirements([&](const std::string &subject, const std::string &value) {
    if (subject == "device") target.device = value;
    if (subject.rfind("dtype of ", 0) == 0 && target.dtype.empty()) target.dtype = value;
  });
  return target;
}

} // namespace opc
