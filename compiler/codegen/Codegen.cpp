// The compiler of regions: which are equal, how long it takes.
// SPDX-License-Identifier: Apache-2.0
#include "Codegen.h"
#include "MachineCode.h"
#include "RegionEmitter.h"

#include "opc/Scalar.h"
#include "opc/ScalarFloat.h"

#include <bit>
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

/// What code depends on and keyOf() takes for granted within one process: the expressions that ops were registered
/// with, the level, and who has made the code.
std::string cacheKey(const Region &region, CodeLevel level, unsigned lanes) {
  const std::string version = codegen::codeVersion();
  if (version.empty()) return "";
  std::string key = version + '\n' + codeLevelName(level) + ' ' + std::to_string(lanes) + '\n' + keyOf(region);
  auto bits = [&](double d) { key += ' ' + std::to_string(std::bit_cast<uint64_t>(d)); };
  for (const RegionStep &step : region.steps) {
    const scalar::ScalarProgram *program = step.op.def().scalar.get();
    key += '\n';
    if (!program) continue;
    for (const scalar::ScalarProgram::Node &n : program->nodes()) {
      key += std::to_string(static_cast<int>(n.op)) + ' ' + std::to_string(n.parameter);
      for (int32_t a : n.args) key += ' ' + std::to_string(a);
      bits(n.value);
      key += ';';
    }
    if (!program->attributes || step.op.inputDescs().empty()) continue;
    for (const scalar::ScalarValue &v : program->attributes(step.op.wrapper(), step.op.inputDescs()[0].data_type())) {
      key += v.isInteger ? " i" + std::to_string(v.integer) : " r";
      bits(v.real);
    }
  }
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
    CodegenEvent event;
    event.start = std::chrono::steady_clock::now();
    for (const RegionStep &step : region.steps) event.ops.push_back(step.op.def().name);
    std::shared_ptr<const RegionCode> made = make(region, reason, &event);
    for (size_t i = 0; made && i < region.steps.size(); ++i)
      if (region.steps[i].kernel->origin.library != "built-in" && !make(alone(region, i), reason, &event))
        made = nullptr;
    (made ? stats_.compiled : stats_.refused) += 1;
    if (made && event.isCached) ++stats_.cached;
    if (!made) event.reason = *reason;
    event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - event.start).count();
    stats_.seconds += event.seconds;
    if (events_.size() < kMaxEvents) events_.push_back(std::move(event));
    known = made;
    return made;
  }
  CodegenStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  std::vector<CodegenEvent> events() const override {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  void setCache(std::unique_ptr<codegen::CodeCache> cache) override {
    const std::lock_guard lock(mutex_);
    cache_ = std::move(cache);
  }

private:
  /// A step as a region of its own: a plugin's ops are looked at one by one, as nobody knows how they were compiled.
  static Region alone(const Region &region, size_t step) {
    Region one;
    one.shape = Shape({kMaxRegionLanes});
    RegionStep copy = region.steps[step];
    for (uint32_t &v : copy.args) {
      one.inputs.emplace_back(one.shape, region.descOf(v).data_type());
      v = static_cast<uint32_t>(one.inputs.size() - 1);
    }
    one.add(std::move(copy));
    one.outputs = {one.valueOf(0)};
    return one;
  }

  std::shared_ptr<const RegionCode> make(const Region &region, std::string *reason, CodegenEvent *event) {
    // Several vectors at once: a chain of functions would wait for each of them.
    const unsigned lanes = level_ == CodeLevel::kV4 ? 64 : 32;
    const std::string key = cache_ ? cacheKey(region, level_, lanes) : "";
    std::string object = key.empty() ? "" : cache_->find(key);
    if (!object.empty())
      if (auto made = load(region, object, lanes, reason, event)) {
        event->isCached = true;
        return made;
      }
    if (!leaves_) leaves_ = std::make_unique<codegen::LeafLibrary>(context_);
    std::unique_ptr<llvm::Module> module = codegen::emitRegion(region, *leaves_, context_, lanes, reason);
    if (!module) return nullptr;
    object = codegen::compileToObject(std::move(module), level_, reason);
    if (object.empty()) return nullptr;
    event->isCached = false;
    auto made = load(region, object, lanes, reason, event);
    if (made && !key.empty()) cache_->keep(key, object);
    return made;
  }

  /// Code that has given the bits of the loops.
  std::shared_ptr<const RegionCode> load(const Region &region, const std::string &object, unsigned lanes,
                                         std::string *reason, CodegenEvent *event) {
    auto code = codegen::loadCode(object, codegen::kEntryName, reason);
    if (!code) return nullptr;
    const size_t bytes = code->bytes();
    auto made = std::make_shared<CompiledRegion>(std::move(code), lanes);
    if (!agreesWithLoops(region, *made)) {
      *reason = "its ops' own loops give other bits";
      return nullptr;
    }
    stats_.bytes += bytes;
    event->bytes += bytes;
    return made;
  }

  const CodeLevel level_;
  const bool isEager_;
  mutable std::mutex mutex_;
  llvm::LLVMContext context_;
  std::unique_ptr<codegen::LeafLibrary> leaves_;
  std::unordered_map<std::string, std::weak_ptr<const RegionCode>> known_;
  CodegenStats stats_;
  std::vector<CodegenEvent> events_;
  std::unique_ptr<codegen::CodeCache> cache_;
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
