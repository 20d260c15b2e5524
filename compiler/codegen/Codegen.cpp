// The compiler of regions: which are equal, how long it takes.
// SPDX-License-Identifier: Apache-2.0
#include "Codegen.h"
#include "MachineCode.h"
#include "RegionEmitter.h"

#include "opc/ScalarFloat.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace opc {
namespace {

class CompiledRegion final : public RegionCode {
public:
  CompiledRegion(std::unique_ptr<codegen::MachineCode> code, int64_t vector) : code_(std::move(code)) {
    function = reinterpret_cast<Function>(code_->entry());
    lanes = vector;
  }

private:
  std::unique_ptr<codegen::MachineCode> code_;
};

/// What regions of the same code have in common. Shapes do not matter, but for inputs of one element.
std::string keyOf(const Region &region) {
  std::string key;
  auto add = [&](const auto &number) { key += std::to_string(number) + ' '; };
  for (const user_op::TensorDesc &d : region.inputs) {
    add(static_cast<int>(d.data_type()));
    key += d.shape().elem_cnt() == 1 && region.shape.elem_cnt() != 1 ? "1 " : "n ";
  }
  for (const RegionStep &step : region.steps) {
    key += step.op.def().name + ' ' + step.kernel->origin.library + ' ';
    for (const auto &[name, value] : step.op.conf().attrs) {
      key += name + '=' + value.toString();
      if (const auto *f = value.get<float>()) add(scalar::f32::toBits(*f));
      if (const auto *d = value.get<double>()) add(scalar::f32::toBits(*d));
      key += ';';
    }
    for (uint32_t v : step.args) add(v);
    add(static_cast<int>(step.op.outputDescs()[0].data_type()));
  }
  for (uint32_t v : region.outputs) add(v);
  return key;
}

class Codegen final : public RegionCodegen {
public:
  Codegen(CodeLevel level, bool isEager) : level_(level), isEager_(isEager) {}
  bool isEager() const override { return isEager_; }

  std::shared_ptr<const RegionCode> compile(const Region &region, std::string *reason) override {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const RegionCode> &known = known_[keyOf(region)];
    if (std::shared_ptr<const RegionCode> same = known.lock()) {
      ++stats_.reused;
      return same;
    }
    const auto begin = std::chrono::steady_clock::now();
    std::shared_ptr<const RegionCode> made = make(region, reason);
    for (size_t i = 0; made && i < region.steps.size(); ++i)
      if (region.steps[i].kernel->origin.library != "built-in" && !make(alone(region, i), reason)) made = nullptr;
    (made ? stats_.compiled : stats_.refused) += 1;
    stats_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    known = made;
    return made;
  }
  CodegenStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

private:
  /// A step as a region of its own: a plugin's ops are looked at one by one, as nobody knows how they were compiled.
  static Region alone(const Region &region, size_t step) {
    Region one;
    one.shape = Shape({kMaxRegionLanes});
    one.steps.push_back(region.steps[step]);
    for (uint32_t &v : one.steps[0].args) {
      one.inputs.emplace_back(one.shape, region.descOf(v).data_type());
      v = static_cast<uint32_t>(one.inputs.size() - 1);
    }
    one.outputs = {one.valueOf(0)};
    return one;
  }

  std::shared_ptr<const RegionCode> make(const Region &region, std::string *reason) {
    // Several vectors at once: a chain of functions would wait for each of them.
    const unsigned lanes = level_ == CodeLevel::kV4 ? 64 : 32;
    if (!leaves_) leaves_ = std::make_unique<codegen::LeafLibrary>(context_);
    std::unique_ptr<llvm::Module> module = codegen::emitRegion(region, *leaves_, context_, lanes, reason);
    if (!module) return nullptr;
    auto code = codegen::compileModule(std::move(module), level_, codegen::kEntryName, reason);
    if (!code) return nullptr;
    stats_.bytes += code->bytes();
    auto made = std::make_shared<CompiledRegion>(std::move(code), lanes);
    if (agreesWithLoops(region, *made)) return made;
    *reason = "its ops' own loops give other bits";
    return nullptr;
  }

  const CodeLevel level_;
  const bool isEager_;
  mutable std::mutex mutex_;
  llvm::LLVMContext context_;
  std::unique_ptr<codegen::LeafLibrary> leaves_;
  std::unordered_map<std::string, std::weak_ptr<const RegionCode>> known_;
  CodegenStats stats_;
};

} // namespace

std::shared_ptr<RegionCodegen> RegionCodegen::create(CodeLevel level, bool isEager) {
  return std::make_shared<Codegen>(level, isEager);
}

std::shared_ptr<RegionCodegen> RegionCodegen::forThisMachine() {
  const CodeLevel level = codeLevel();
  return level == CodeLevel::kNone ? nullptr : create(level, isCodeLevel(wantedCodeLevel()));
}

} // namespace opc
