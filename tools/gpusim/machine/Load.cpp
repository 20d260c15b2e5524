// A module placed in a device's memory: addresses of variables, relocations.
// SPDX-License-Identifier: Apache-2.0
#include "KernelProgram.h"

#include <cstring>
#include <set>

namespace opc::gpusim {

LoadedModule::LoadedModule() = default;

LoadedModule::~LoadedModule() {
  for (auto &[name, place] : placed_) memory_->release(place.first);
}

std::unique_ptr<LoadedModule> LoadedModule::load(std::shared_ptr<const Module> module, Memory &memory,
                                                 std::string *error, bool *noRoom) {
  std::unique_ptr<LoadedModule> loaded(new LoadedModule);
  loaded->module_ = module;
  loaded->memory_ = &memory;
  loaded->programs_ = std::make_unique<Programs>();
  Programs &p = *loaded->programs_;
  p.loaded = loaded.get();
  p.programs.resize(module->functions().size());
  for (uint32_t i = 0; i < module->functions().size(); ++i) p.numbers[module->functions()[i]->name] = i;
  for (const Variable &v : module->variables()) {
    if (v.external) continue;
    uint64_t bytes = v.bytes ? v.bytes : 1, at = memory.allocate(bytes);
    if (!at) {
      *error = "no room for the " + std::to_string(bytes) + " bytes of the variable " + v.name;
      if (noRoom) *noRoom = true;
      return nullptr;
    }
    loaded->placed_[v.name] = {at, v.bytes};
    memory.fill(at, 0, bytes);
    if (v.initialized) memory.write(at, v.initial.data(), v.initial.size());
    if (v.constant) p.constants.insert(at);
  }
  p.addresses = loaded->placed_;
  for (const Variable &v : module->variables())
    for (const Variable::Relocation &r : v.relocations) {
      uint64_t value = 0, symbol = 0;
      if (auto it = loaded->placed_.find(r.symbol); it != loaded->placed_.end())
        symbol = it->second.first;
      else if (auto f = p.numbers.find(r.symbol); f != p.numbers.end())
        symbol = kFunctionWindow | (f->second + 1);
      else {
        *error = "the variable " + v.name + " has the address of " + r.symbol + ", which is defined nowhere";
        return nullptr;
      }
      uint64_t at = loaded->placed_.at(v.name).first + r.offset;
      memory.read(&value, at, r.size);
      value += symbol >> r.shift;
      memory.write(at, &value, r.size);
    }
  return loaded;
}

std::vector<Finding> LoadedModule::notSupported() const {
  std::vector<Finding> all;
  for (uint32_t n = 0; n < module_->functions().size(); ++n) {
    const Function &function = *module_->functions()[n];
    for (const auto &[index, why] : programs_->program(n)->unsupported) {
      const Instruction &at = function.instructions[index];
      Finding f;
      f.cudaError = kCudaIllegalInstruction, f.kind = "not supported", f.kernel = function.name, f.message = why;
      f.ptxLine = at.line, f.file = module_->file(at.file), f.line = at.sourceLine;
      all.push_back(std::move(f));
    }
  }
  return all;
}

bool LoadedModule::variable(const std::string &name, uint64_t *address, uint64_t *bytes) const {
  auto it = placed_.find(name);
  if (it == placed_.end()) return false;
  *address = it->second.first, *bytes = it->second.second;
  return true;
}

} // namespace opc::gpusim
