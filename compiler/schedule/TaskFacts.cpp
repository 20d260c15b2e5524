// What kernels say of the tasks of ops.
// SPDX-License-Identifier: Apache-2.0
#include "TaskFacts.h"
#include "AttrBridge.h"
#include "BuiltIn.h"
#include "EmitStatus.h"
#include "MutableInputs.h"

namespace opc {
namespace {

#ifdef OPC_WITHOUT_NVCC
constexpr bool kHasDeviceKernels = false;
#else
constexpr bool kHasDeviceKernels = true;
#endif

/// Where the CPU has a kernel, it may have the op.
Status withWayOut(Status status, const OpInstance &instance, const Registry &registry, DeviceType wanted) {
  if (wanted == DeviceType::kCPU || !instance.selectKernel(registry, DeviceType::kCPU)) return status;
  std::string help = status.help();
  if (!kHasDeviceKernels && isBuiltIn(instance.def().origin))
    help = "this build has no kernels for GPUs: build opc where nvcc is found";
  return std::move(status).withHelp("--allow-cpu-fallback runs it on the CPU" + (help.empty() ? "" : "\n" + help));
}

Result<TaskFacts> findFacts(const OpInstance &instance, const Registry &registry, DeviceType device) {
  TaskFacts facts;
  if (instance.def().modifyInputs) {
    facts.hidden = mutableInputs(instance);
    for (size_t i = 0; i < facts.hidden.size(); ++i) facts.hidden[i] = facts.hidden[i] && mayStayUnwritten(instance, i);
  }
  const auto kernel = instance.selectKernel(registry, device);
  if (!kernel) return withWayOut(kernel.status(), instance, registry, device);
  facts.kernel = *kernel;
  OPC_ASSIGN_OR_RETURN(facts.workspace, instance.tmpSize(**kernel));
  OPC_ASSIGN_OR_RETURN(facts.inPlace, instance.inplaceProposal(**kernel));
  return facts;
}

} // namespace

const TaskFacts *KnownTasks::of(ir::UserOp op, DeviceType device) {
  const ir::OpForm form(op, ir::OpForm::kResults, {static_cast<uintptr_t>(device)});
  if (const TaskFacts *facts = known_.find(form)) return facts;
  auto facts = findFacts(*ir::toInstance(op, *op.def()), registry_, device);
  if (!facts) {
    emitStatus(op, facts.status());
    return nullptr;
  }
  return &known_.add(form, std::move(*facts));
}

} // namespace opc
