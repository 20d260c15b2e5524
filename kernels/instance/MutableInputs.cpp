// Asking a definition which inputs it writes.
// SPDX-License-Identifier: Apache-2.0
#include "MutableInputs.h"

#include <algorithm>
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

Status checkModifiers(const OpInstance &op) {
  const user_op::OpDef &def = op.def();
  std::string unknown;
  const auto note = [&](const std::vector<user_op::ArgDef> &args, const std::string &name) {
    for (const user_op::ArgDef &a : args)
      if (a.name == name || std::find(a.aliases.begin(), a.aliases.end(), name) != a.aliases.end()) return;
    if (unknown.empty()) unknown = name;
  };
  const auto check = [&](const char *function, const char *kind, const auto &run) -> Status {
    const auto failed = [&](const std::string &why) {
      return Status(StatusCode::kInvalidGraph, "OPC0203", def.name + ": its " + function + " " + why)
          .withHelp("correct it where the op is registered");
    };
    Status done = user_op::detail::guarded([&] { return run(), Status(); });
    if (!done) return failed("failed: " + done.message());
    return unknown.empty() ? Status::ok() : failed("names '" + unknown + "', which is no " + kind + " of the op");
  };
  if (def.modifyInputs) {
    user_op::InputBlobModifier modifier;
    OPC_RETURN_IF_ERROR(check("SetInputArgModifyFn", "input", [&] {
      def.modifyInputs([&](const std::string &arg, int32_t) { return note(def.inputs, arg), &modifier; }, op.wrapper());
    }));
  }
  if (def.modifyOutputs) {
    user_op::OutputBlobModifier modifier;
    OPC_RETURN_IF_ERROR(check("SetOutputArgModifyFn", "output", [&] {
      def.modifyOutputs([&](const std::string &arg, int32_t) { return note(def.outputs, arg), &modifier; },
                        op.wrapper());
    }));
  }
  return Status::ok();
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
