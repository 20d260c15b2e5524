// What a module answers about itself.
// SPDX-License-Identifier: Apache-2.0
#include "Module.h"
#include "Function.h"

#include <algorithm>

namespace opc::gpusim {

Module::Module() = default;
Module::~Module() = default;

const KernelInfo *Module::kernel(std::string_view name) const {
  auto it = std::find_if(kernels_.begin(), kernels_.end(), [&](const KernelInfo &k) { return k.name == name; });
  return it == kernels_.end() ? nullptr : &*it;
}

const Function *Module::function(std::string_view name) const {
  for (const auto &f : functions_)
    if (f->name == name) return f.get();
  return nullptr;
}

const std::string &Module::file(uint32_t number) const {
  static const std::string kNone;
  return number < files_.size() ? files_[number] : kNone;
}

bool Function::has(const Instruction &i, std::string_view wanted) const {
  for (uint32_t n = 0; n < i.modifiers; ++n)
    if (modifier(i, n) == wanted) return true;
  return false;
}

namespace {

struct TypeName {
  std::string_view name;
  Type type;
  uint32_t bytes;
};
constexpr TypeName kTypes[] = {
    {"pred", Type::kPred, 0},   {"b8", Type::kB8, 1},         {"b16", Type::kB16, 2},       {"b32", Type::kB32, 4},
    {"b64", Type::kB64, 8},     {"b128", Type::kB128, 16},    {"u8", Type::kU8, 1},         {"u16", Type::kU16, 2},
    {"u32", Type::kU32, 4},     {"u64", Type::kU64, 8},       {"s8", Type::kS8, 1},         {"s16", Type::kS16, 2},
    {"s32", Type::kS32, 4},     {"s64", Type::kS64, 8},       {"f16", Type::kF16, 2},       {"f16x2", Type::kF16x2, 4},
    {"bf16", Type::kBf16, 2},   {"bf16x2", Type::kBf16x2, 4}, {"tf32", Type::kTf32, 4},     {"f32", Type::kF32, 4},
    {"f64", Type::kF64, 8},     {"e4m3x2", Type::kE4m3x2, 2}, {"e5m2x2", Type::kE5m2x2, 2}, {"u16x2", Type::kU16x2, 4},
    {"s16x2", Type::kS16x2, 4},
};

} // namespace

uint32_t sizeOf(Type type) {
  for (const TypeName &t : kTypes)
    if (t.type == type) return t.bytes;
  return 0;
}

Type typeNamed(std::string_view name) {
  for (const TypeName &t : kTypes)
    if (t.name == name) return t.type;
  return Type::kNone;
}

} // namespace opc::gpusim
