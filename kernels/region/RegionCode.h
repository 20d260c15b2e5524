// Machine code for regions: what a compiler of regions gives, and who that is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace opc {

constexpr int64_t kMaxRegionLanes = 64;

/// One loop that computes a region.
class RegionCode {
public:
  /// Computes n elements, a multiple of `lanes`. in[i] are n elements of input i, or the one element that it has;
  /// out[o] are n elements, which may be those of an input of the same element size. Several threads may call it.
  using Function = void (*)(const void *const *in, void *const *out, int64_t n);

  virtual ~RegionCode() = default;
  Function function = nullptr;
  int64_t lanes = 1; // at most kMaxRegionLanes
};

class RegionCompiler {
public:
  virtual ~RegionCompiler() = default;
  /// Null, with the reason, where there is no code for it; the region is computed step by step then. Several threads
  /// may call it.
  virtual std::shared_ptr<const RegionCode> compile(const Region &region, std::string *reason) = 0;
  /// Code that is there already, so that nothing speaks against taking it at once; null where there is none. `key`:
  /// regionKey() of the region.
  virtual std::shared_ptr<const RegionCode> ready(const Region &, const std::string &key) { return nullptr; }
  /// Whether to compile everything at once, be it small: for tests.
  virtual bool isEager() const { return false; }
  /// Whether its code is for wider vectors than the kernels are compiled for, so that an op by itself gains from it.
  virtual bool isWider() const { return false; }
};

/// Who compiles the regions of plans that are loaded from now on; null, as in the beginning, for nobody.
void setRegionCompiler(std::shared_ptr<RegionCompiler> compiler);
std::shared_ptr<RegionCompiler> regionCompiler();

/// While one is alive, plans that this thread loads have regions without code, as long as they live.
class WithoutRegionCode {
public:
  explicit WithoutRegionCode(bool isWanted = true) : before_(isOn_) { isOn_ |= isWanted; }
  WithoutRegionCode(const WithoutRegionCode &) = delete;
  WithoutRegionCode &operator=(const WithoutRegionCode &) = delete;
  ~WithoutRegionCode() { isOn_ = before_; }
  static bool isOn() { return isOn_; }

private:
  static thread_local bool isOn_;
  const bool before_;
};

/// Who compiles the regions of a plan that this thread loads now: regionCompiler(), or nobody.
std::shared_ptr<RegionCompiler> compilerOfLoad();

/// regionKernel() with code of this compiler; null: of compilerOfLoad().
user_op::KernelDef regionKernel(std::shared_ptr<const Region> region, std::shared_ptr<RegionCompiler> compiler);

/// An op that is in no region as one of its own, so that it may have code; null where its kernel has no loop over
/// elements, its output is small, or elements of an operand are broadcast, for which kernels have better loops.
/// `isEager`: in the last two cases, too. `op` has its descriptors; `kernel` lives longer than the result.
std::shared_ptr<const Region> regionOfOne(const OpInstance &op, const user_op::KernelDef &kernel, bool isEager = false);
/// Computes regionOfOne() in the place of its op's kernel, with the same bits.
user_op::KernelDef kernelOfOne(std::shared_ptr<const Region> region, std::shared_ptr<RegionCompiler> compiler);

/// Bytes that a region reads and writes in one run.
int64_t bytesMoved(const Region &region);

/// What regions that have the same code move, all those of the process together: a network has one activation in many
/// places, each of them small.
struct RegionTraffic {
  std::atomic<int64_t> inRun{0}; // in a run of each of them
  std::atomic<int64_t> moved{0}; // in all
  std::atomic<bool> isCompiled{false};
};

/// When a region gets its code: as soon as its loops have cost as much more than code as compiling does. Where those of
/// one code move kAtOnce bytes in a run it is compiled when their plan is loaded, else when they have moved kInAll;
/// what is ready is taken at once.
class RegionCodeChoice {
public:
  static constexpr int64_t kAtOnce = int64_t{128} << 20, kInAll = int64_t{256} << 20;

  /// `compiler`: null for a region that has no code. `waits`: compiled when kInAll have been moved, be it large.
  RegionCodeChoice(const Region &region, std::shared_ptr<RegionCompiler> compiler, bool waits = false);
  RegionCodeChoice(const RegionCodeChoice &) = delete;
  RegionCodeChoice &operator=(const RegionCodeChoice &) = delete;
  ~RegionCodeChoice();
  /// Called at the beginning of each run. The code, if there is one yet.
  const RegionCode *next() const;

private:
  void compile() const;

  const Region &region_;
  const std::shared_ptr<RegionCompiler> compiler_;
  const int64_t bytes_;
  std::shared_ptr<RegionTraffic> traffic_;
  mutable std::atomic<bool> tried_{false};
  mutable std::shared_ptr<const RegionCode> made_;
  mutable std::atomic<const RegionCode *> code_{nullptr};
};

/// Whether code gives the bits that the loops of the steps give, for some hundred values of every kind. NaNs are equal.
/// What an expression says and what a kernel does are the same by construction where the kernel is made from it with
/// the SDK's options; this finds the others.
bool agreesWithLoops(const Region &region, const RegionCode &code);

} // namespace opc
