// Asking a definition which inputs it writes.
// SPDX-License-Identifier: Apache-2.0
#include "MutableInputs.h"

#include <deque>

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

bool writesInputs(const user_op::OpDef &def, const user_op::OpConf &conf) {
  if (!def.modifyInputs) return false;
  std::deque<user_op::InputBlobModifier> modifiers; // addresses stay
  user_op::InputBlobModifier absent;
  const user_op::UserOpConfWrapper wrapper(conf);
  (void)user_op::detail::guarded([&] {
    def.modifyInputs([&](const std::string &arg,
                         int32_t i) { return i < wrapper.input_size(arg) ? &modifiers.emplace_back() : &absent; },
                     wrapper);
    return Status();
  });
  for (const user_op::InputBlobModifier &m : modifiers)
    if (m.isMutable) return true;
  return false;
}

bool mayStayUnwritten(const OpInstance &op, size_t input) {
  const user_op::ArgDef *arg = op.def().findInput(op.inputArgs()[input].first);
  return arg && arg->optional && !op.def().outputs.empty();
}

} // namespace opc
