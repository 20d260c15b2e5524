// Branches, calls, returns, ends.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "DevicePrint.h"
#include "Lanes.h"
#include "Scheduler.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

constexpr uint32_t kDeepest = 256;
constexpr uint64_t kMostLocal = 1 << 20;

Step branch(Lanes &x, const Code &c) {
  if (x.active == x.group) {
    x.pc = c.target;
    return Step::kJump;
  }
  place(x, x.group & ~x.active, x.pc + 1);
  place(x, x.active, c.target);
  return Step::kReselect;
}

Step branchTable(Lanes &x, const Code &c) {
  const uint64_t *index = x.source(c.a);
  const auto &targets = x.program->function->tables[c.target];
  place(x, x.group & ~x.active, x.pc + 1);
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    uint32_t n = uint32_t(index[lane]);
    if (n >= targets.size()) {
      x.find(lane, "trap", kCudaInvalidPc,
             "brx.idx takes entry " + std::to_string(n) + " of a table of " + std::to_string(targets.size()));
      return Step::kReselect;
    }
    x.warp.pc[lane] = targets[n];
  }
  return Step::kReselect;
}

Step exitLanes(Lanes &x, const Code &) {
  place(x, x.group & ~x.active, x.pc + 1);
  x.warp.live &= ~x.active;
  x.warp.exited |= x.active;
  for (Frame *f = x.frame; f;) {
    Frame *parent = f->parent;
    x.run.leave(x.warp, f, x.active);
    f = parent;
  }
  return Step::kReselect;
}

/// Bytes of a lane's local memory, with their marks.
void copyLocal(Warp &w, uint32_t lanes, uint64_t to, uint64_t from, uint32_t bytes) {
  // A call may pass more than the caller declared; what is not there is not copied.
  uint64_t last = std::max(to, from);
  if (last >= w.localCapacity) return;
  bytes = uint32_t(std::min<uint64_t>(bytes, w.localCapacity - last));
  each(lanes, [&](int lane) {
    uint64_t base = uint64_t(lane) * w.localCapacity;
    std::memmove(w.local.data() + base + to, w.local.data() + base + from, bytes);
    std::memmove(w.localWritten.data() + base + to, w.localWritten.data() + base + from, bytes);
  });
}

Step ret(Lanes &x, const Code &c) {
  Frame *frame = x.frame, *parent = frame->parent;
  if (!parent) return exitLanes(x, c);
  place(x, x.group & ~x.active, x.pc + 1);
  const Code &call = parent->program->code[frame->call];
  const auto &results = x.program->function->results;
  for (uint32_t i = 0; i < results.size() && i < call.size; ++i)
    copyLocal(x.warp, x.active, parent->localBase + uint64_t(parent->program->slots[call.list + i]),
              frame->localBase + results[i].offset, results[i].size);
  place(x, x.active, frame->returnPc);
  each(x.active, [&](int lane) { x.warp.frame[lane] = parent; });
  x.run.leave(x.warp, frame, x.active);
  return Step::kReselect;
}

/// Lists of the call: `size` results, then `vector` arguments, offsets in the caller's local bytes.
Step enterFunction(Lanes &x, const Code &c, uint32_t number, uint32_t lanes) {
  const Program *callee = x.run.programs->program(number);
  int first = std::countr_zero(lanes);
  if (callee->function->external) {
    x.find(first, "not supported", kCudaIllegalInstruction,
           "the function " + callee->function->name + " is only declared");
    return Step::kReselect;
  }
  Frame *caller = x.frame;
  uint64_t base = (caller->localBase + uint64_t(x.program->function->localBytes) + 15) / 16 * 16;
  if (caller->depth >= kDeepest || base + callee->function->localBytes > kMostLocal) {
    x.find(first, "stack", kCudaHardwareStackError,
           "calls are nested " + std::to_string(caller->depth + 1) + " deep at " + callee->function->name);
    return Step::kReselect;
  }
  Frame *frame = x.run.enter(x.warp, *callee, caller, lanes);
  frame->returnPc = c.index + 1, frame->call = c.index;
  const auto &params = callee->function->params;
  for (uint32_t i = 0; i < params.size() && i < c.vector; ++i)
    copyLocal(x.warp, lanes, frame->localBase + params[i].offset,
              caller->localBase + uint64_t(x.program->slots[c.list + c.size + i]), params[i].size);
  place(x, lanes, 0);
  each(lanes, [&](int lane) { x.warp.frame[lane] = frame; });
  return Step::kReselect;
}

Step call(Lanes &x, const Code &c) {
  place(x, x.group & ~x.active, x.pc + 1);
  return enterFunction(x, c, c.target, x.active);
}
Step callIndirect(Lanes &x, const Code &c) {
  const uint64_t *target = x.source(c.a);
  int first = std::countr_zero(x.active);
  uint64_t wanted = target[first], number = (wanted & ~kWindowMask) - 1;
  if ((wanted & kWindowMask) != kFunctionWindow || number >= x.run.programs->programs.size()) {
    x.find(first, "trap", kCudaInvalidPc, "a call of an address that is no function");
    return Step::kReselect;
  }
  uint32_t alike = 0;
  each(x.active, [&](int lane) { alike |= uint32_t(target[lane] == wanted) << lane; });
  place(x, x.group & ~x.active, x.pc + 1);
  place(x, x.active & ~alike, x.pc); // they come here again
  return enterFunction(x, c, uint32_t(number), alike);
}

Step trap(Lanes &x, const Code &) {
  x.find(std::countr_zero(x.active), "trap", kCudaLaunchFailed, "the kernel ends itself: trap");
  return Step::kReselect;
}

/// Offsets of the call's parameters in the caller's local bytes.
uint32_t parameters(Decoder &d, uint32_t n) {
  const Operand &list = d.operand(n);
  const Operand *items = &list + 1;
  for (uint32_t i = 0; i < list.count; ++i) {
    bool local = false;
    if (items[i].kind != Operand::kSymbol) d.unsupported("arguments in registers");
    uint64_t offset = d.symbolValue(items[i].symbol, &local);
    if (!local) d.unsupported("an argument that is no .param variable");
    d.program().slots.push_back(int32_t(offset));
  }
  return list.count;
}

Handler decodeCall(Decoder &d, Code &c) {
  c.list = uint32_t(d.program().slots.size());
  uint32_t results = parameters(d, 0), arguments = parameters(d, 2);
  if (results > 255 || arguments > 255) d.unsupported("so many arguments");
  c.size = uint8_t(results), c.vector = uint8_t(arguments);
  const Operand &callee = d.operand(1);
  if (callee.slot >= 0) {
    c.a = callee.slot;
    return callIndirect;
  }
  const Symbol &symbol = d.function().symbols[callee.symbol];
  if (symbol.kind != Symbol::kFunction) d.unsupported(symbol.name + " is no function");
  uint32_t wanted = 0;
  if (Handler builtin = builtinFunction(symbol.name, &wanted)) {
    if (arguments < wanted) d.unsupported(symbol.name + " with " + std::to_string(arguments) + " arguments");
    return builtin;
  }
  c.target = d.programs().numbers.at(symbol.name);
  return call;
}

} // namespace

void addControl(DecodeTable &t) {
  t["bra"] = [](Decoder &d, Code &c) -> Handler {
    if (d.operand(0).kind != Operand::kTarget) d.unsupported("a branch to what is no label");
    c.target = uint32_t(d.operand(0).value);
    return branch;
  };
  t["brx"] = [](Decoder &d, Code &c) -> Handler {
    c.a = d.source(0, Type::kU32);
    if (d.operand(1).kind != Operand::kTable) d.unsupported("a table that is none");
    c.target = uint32_t(d.operand(1).value);
    return branchTable;
  };
  t["call"] = decodeCall;
  t["ret"] = [](Decoder &, Code &) -> Handler { return ret; };
  t["exit"] = [](Decoder &, Code &) -> Handler { return exitLanes; };
  t["trap"] = t["brkpt"] = [](Decoder &, Code &) -> Handler { return trap; };
}

} // namespace opc::gpusim
