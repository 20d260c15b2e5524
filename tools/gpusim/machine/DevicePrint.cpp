// printf and assert of kernels.
// SPDX-License-Identifier: Apache-2.0
#include "DevicePrint.h"
#include "Access.h"

#include <cstdio>

namespace opc::gpusim {

namespace {

uint64_t argument(const Lanes &x, const Code &c, int lane, uint32_t n) {
  uint64_t v = 0;
  uint64_t at =
      uint64_t(lane) * x.warp.localCapacity + x.frame->localBase + uint64_t(x.program->slots[c.list + c.size + n]);
  std::memcpy(&v, x.warp.local.data() + at, 8);
  return v;
}

bool text(Lanes &x, int lane, uint64_t address, std::string *into) {
  for (int i = 0; i < 4096; ++i) {
    Want want;
    want.address = address + uint64_t(i), want.size = 1;
    const std::byte *at = reach(x, lane, want);
    if (!at) return false;
    if (char(*at) == 0) return true;
    into->push_back(char(*at));
  }
  return true;
}

/// One conversion of a format, from where it begins. Arguments are packed as a structure, floats as doubles.
bool conversion(Lanes &x, int lane, std::string &format, size_t &at, uint64_t &arguments, std::string *out) {
  size_t begin = at++;
  while (at < format.size() && std::string_view("-+ #0123456789.").find(format[at]) != std::string_view::npos) ++at;
  bool wide = false;
  for (; at < format.size() && std::string_view("hlzjt").find(format[at]) != std::string_view::npos; ++at)
    wide |= format[at] != 'h';
  if (at >= format.size()) return true;
  char kind = format[at++];
  std::string spec = format.substr(begin, at - begin);
  if (kind == '%') return out->push_back('%'), true;
  bool real = std::string_view("fFeEgGaA").find(kind) != std::string_view::npos;
  uint32_t size = real || wide || kind == 's' || kind == 'p' ? 8 : 4;
  arguments = (arguments + size - 1) / size * size;
  Want want;
  want.address = arguments, want.size = size;
  const std::byte *from = reach(x, lane, want);
  if (!from) return false;
  uint64_t v = 0;
  std::memcpy(&v, from, size);
  arguments += size;
  char shown[512];
  std::string string;
  if (kind == 's') {
    if (!text(x, lane, v, &string)) return false;
    std::snprintf(shown, sizeof shown, spec.c_str(), string.c_str());
  } else if (real) {
    std::snprintf(shown, sizeof shown, spec.c_str(), get<double>(v));
  } else if (std::string_view("diuoxXc").find(kind) != std::string_view::npos) {
    size == 8 ? std::snprintf(shown, sizeof shown, spec.c_str(), v)
              : std::snprintf(shown, sizeof shown, spec.c_str(), uint32_t(v));
  } else {
    std::snprintf(shown, sizeof shown, "0x%llx", (unsigned long long)v);
  }
  *out += shown;
  return true;
}

Step print(Lanes &x, const Code &c) {
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    std::string format;
    if (!text(x, lane, argument(x, c, lane, 0), &format)) return Step::kReselect;
    uint64_t arguments = argument(x, c, lane, 1);
    for (size_t at = 0; at < format.size();) {
      if (format[at] != '%')
        x.run.outcome.printed.push_back(format[at++]);
      else if (!conversion(x, lane, format, at, arguments, &x.run.outcome.printed))
        return Step::kReselect;
    }
    if (c.size) { // how many arguments there were: nobody asks
      uint64_t result = uint64_t(lane) * x.warp.localCapacity + x.frame->localBase + uint64_t(x.program->slots[c.list]);
      std::memset(x.warp.local.data() + result, 0, 4);
      std::memset(x.warp.localWritten.data() + result, 1, 4);
    }
  }
  return Step::kNext;
}

Step assertionFailed(Lanes &x, const Code &c) {
  int lane = std::countr_zero(x.active);
  std::string message, file;
  if (!text(x, lane, argument(x, c, lane, 0), &message) || !text(x, lane, argument(x, c, lane, 1), &file))
    return Step::kReselect;
  x.find(lane, "assert", kCudaAssert,
         "assertion failed: " + message + " (" + file + ":" + std::to_string(uint32_t(argument(x, c, lane, 2))) + ")");
  return Step::kReselect;
}

Step deviceHeap(Lanes &x, const Code &) {
  x.find(std::countr_zero(x.active), "not supported", kCudaIllegalInstruction, "malloc and free of kernels");
  return Step::kReselect;
}

} // namespace

Handler builtinFunction(std::string_view name, uint32_t *arguments) {
  *arguments = name == "vprintf" ? 2 : name == "__assertfail" ? 3 : 0;
  if (name == "vprintf") return print;
  if (name == "__assertfail") return assertionFailed;
  if (name == "malloc" || name == "free") return deviceHeap;
  return nullptr;
}

} // namespace opc::gpusim
