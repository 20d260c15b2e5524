// Asking a definition which inputs it writes.
#include "MutableInputs.h"

namespace opc {

std::vector<bool> mutableInputs(const OpInstance &op) {
  std::vector<bool> result(op.inputArgs().size(), false);
  if (!op.def().modifyInputs) return result;
  std::vector<user_op::InputBlobModifier> modifiers(result.size());
  user_op::InputBlobModifier absent; // a rule may name optional inputs that this instance does not have
  (void)user_op::detail::guarded([&] {
    op.def().modifyInputs(
        [&](const std::string &arg, int32_t i) {
          const int flat = op.findInput(arg, i);
          return flat < 0 ? &absent : &modifiers[static_cast<size_t>(flat)];
        },
        op.wrapper());
    return Status();
  });
  for (size_t i = 0; i < modifiers.size(); ++i) result[i] = modifiers[i].isMutable;
  return result;
}

} // namespace opc
