// Registry: storage, look-up, freezing.
// SPDX-License-Identifier: Apache-2.0
#include "Registry.h"
#include "DerivedGradient.h"
#include "DeviceKernels.h"
#include "NearestNames.h"
#include "PluginOverrides.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

namespace opc {

using user_op::GradDef;
using user_op::KernelDef;
using user_op::OpDef;

struct Registry::Impl {
  std::map<std::string, std::unique_ptr<OpDef>> ops;
  std::unordered_map<std::string, const OpDef *> byName; // names and aliases
  std::vector<std::unique_ptr<KernelDef>> kernelStore;
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
      for (const KernelDef &k : def.kernels) entry.kernels.push_back(&k);
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

namespace {
std::string where(const user_op::Origin &o) {
  return (o.library.empty() ? "" : o.library + ", ") + o.file + ":" + std::to_string(o.line);
}
/// Whether an op is held to be pure, and why: what its definition says, else what can be seen. Nothing that merges,
/// drops or computes ahead may touch an op that has something to lose by it.
void concludePurity(OpDef *op, const std::vector<const KernelDef *> &kernels) {
  auto held = [&](bool pure, std::string reason) { op->pure = pure, op->pureReason = std::move(reason); };
  if (op->said != user_op::Purity::kUnsaid) return held(op->said == user_op::Purity::kPure, "its definition says so");
  for (const KernelDef *k : kernels)
    if (k->hasState) return held(false, "its kernel (" + where(k->origin) + ") makes a state");
  if (op->outputs.empty()) return held(false, "it has no outputs: what it does shows elsewhere");
  if (std::all_of(op->inputs.begin(), op->inputs.end(), [](const user_op::ArgDef &a) { return a.optional; }))
    return held(false, "it needs no inputs: a source");
  held(true, "it has inputs and outputs, and no kernel of it makes a state");
}

Status rejected(const char *id, const std::string &message, const std::string &help = "") {
  return Status(StatusCode::kUnsupported, id, message).withHelp(help);
}
} // namespace

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;
Registry::Registry(Registry &&) noexcept = default;
Registry &Registry::operator=(Registry &&) noexcept = default;

Status Registry::addLinked() { return add(user_op::pendingRegistrations(), "built-in", nullptr); }

Status Registry::add(user_op::PendingRegistrations pending, const std::string &library, PluginInfo *info) {
  if (frozen_)
    return Status(StatusCode::kInternal, "OPC0901", "the registry is frozen; " + library + " comes too late");
  // Check everything first: a library that fails adds nothing.
  std::map<std::string, const user_op::Origin *> fresh;
  for (OpDef &op : pending.ops) {
    op.origin.library = library;
    if (!op.inferTensorDesc)
      return rejected("OPC0904", "op '" + op.name + "' has no shape rule (" + where(op.origin) + ")",
                      "call SetTensorDescInferFn");
    std::vector<std::string> names = {op.name};
    names.insert(names.end(), op.aliases.begin(), op.aliases.end());
    for (const std::string &name : names) {
      const OpDef *known = findOp(name);
      const user_op::Origin *other = known ? &known->origin : nullptr;
      if (!other && fresh.count(name)) other = fresh[name];
      if (other) {
        std::string help = "rename one of them, or load only one of the libraries";
        if (other->library == "built-in" && info) {
          help = "rename yours, or let it win: --plugin-overrides " + library;
          help.append(", or overrides=").append(library).append(" where plugins are listed");
        }
        return rejected("OPC0903",
                        "op '" + name + "' is registered twice: at " + where(*other) + " and at " + where(op.origin),
                        help);
      }
      fresh[name] = &op.origin;
    }
  }
  for (GradDef &g : pending.grads) {
    g.origin.library = library;
    auto known = impl_->grads.find(g.opType);
    if (known != impl_->grads.end())
      return rejected("OPC0903", "the gradient of '" + g.opType + "' is registered twice: at " +
                                     where(known->second->origin) + " and at " + where(g.origin));
  }
  for (OpDef &op : pending.ops) {
    auto stored = std::make_unique<OpDef>(std::move(op));
    impl_->byName[stored->name] = stored.get();
    for (const std::string &alias : stored->aliases) impl_->byName[alias] = stored.get();
    std::vector<const KernelDef *> own;
    for (KernelDef &k : stored->kernels) {
      k.opType = stored->name;
      pending.kernels.push_back(k);
      own.push_back(&k);
    }
    for (KernelDef &k : deviceKernels(*stored, own)) pending.kernels.push_back(std::move(k));
    if (info) info->ops.push_back(stored->name);
    impl_->ops.emplace(stored->name, std::move(stored));
  }
  for (KernelDef &k : pending.kernels) {
    k.origin.library = library;
    const OpDef *op = findOp(k.opType);
    if (op) k.opType = op->name;
    if (info) info->kernels.push_back(k.opType);
    impl_->kernelStore.push_back(std::make_unique<KernelDef>(std::move(k)));
    auto &list = impl_->kernels[impl_->kernelStore.back()->opType];
    list.push_back(impl_->kernelStore.back().get());
    std::stable_sort(list.begin(), list.end(),
                     [](const KernelDef *a, const KernelDef *b) { return a->priority > b->priority; });
  }
  for (GradDef &g : pending.grads) {
    if (info) info->grads.push_back(g.opType);
    std::string type = g.opType;
    impl_->grads.emplace(std::move(type), std::make_unique<GradDef>(std::move(g)));
  }
  for (const auto &o : impl_->ops) concludePurity(o.second.get(), impl_->kernels[o.first]);
  impl_->sorted.clear();
  for (const auto &o : impl_->ops) impl_->sorted.push_back(o.second.get());
  if (info)
    for (auto *list : {&info->ops, &info->kernels, &info->grads}) std::sort(list->begin(), list->end());
  return Status::ok();
}

Result<PluginInfo> Registry::loadPlugin(const std::string &plugin) {
  const std::string path = pluginPath(plugin);
  for (const PluginInfo &p : impl_->plugins)
    if (p.path == path) return p; // naming a library twice on the command line is not a conflict
  OPC_ASSIGN_OR_RETURN(LoadedPlugin loaded, openPlugin(path));
  if (isOverriding(plugin)) OPC_RETURN_IF_ERROR(overrideNames(*this, path, &loaded.registrations));
  OPC_RETURN_IF_ERROR(add(std::move(loaded.registrations), path, &loaded.info));
  impl_->plugins.push_back(loaded.info);
  return loaded.info;
}

const OpDef *Registry::findOp(const std::string &type) const {
  auto it = impl_->byName.find(type);
  if (it != impl_->byName.end()) return it->second;
  const std::lock_guard<std::mutex> lock(impl_->derivedMutex);
  const Impl::Derived *derived = impl_->findDerived(type);
  return derived ? &derived->gradient->def : nullptr;
}
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
