// Machine code that a plan brings, for a session that may run it (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeImage.h"
#include "plan.pb.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace opc::runtime {

/// The error of code that is not that of the plan's regions here.
constexpr char kUnfitCode[] = "OPC0825";

CodeLevel levelOf(const plan::NativeCode::Image &image);

/// Gives regions the plan's code, and those without any to whoever compiles in this process. Nothing of it is mapped
/// before prepare() has checked that it belongs to the region.
class NativeImages final : public RegionCompiler {
public:
  struct Stats {
    uint64_t regions = 0; // loops that have code; of several sizes those of the graph that was made last
    uint64_t bytes = 0;   // of code in memory; equal loops have one
  };

  /// `plan` has been decoded, which has checked the images' frames, and lives until the last prepare().
  explicit NativeImages(const plan::Plan &plan) : plan_(&plan), next_(compilerOfLoad()) {}
  /// A graph for other sizes of the plan follows, of which `copy` has the images. Its loops need not be those that the
  /// images were made for: what has none is interpreted.
  void beginOtherSizes(const plan::Plan &copy);

  /// Maps what a task says of its region's loops; null: of a task that has none. Errors: OPC0824 (a level that this
  /// processor has not, or no memory), OPC0825 (code of other loops or of another version, or code that gives other
  /// bits than the loops).
  Status prepare(const plan::Task &task, const std::shared_ptr<const Region> &region);
  Stats stats() const;

  std::shared_ptr<const RegionCode> ready(const Region &region, const std::string &key) override;
  std::shared_ptr<const RegionCode> compile(const Region &region, std::string *reason) override;
  bool isEager() const override { return next_ && next_->isEager(); }
  bool isWider() const override { return next_ && next_->isWider(); }

private:
  Status map(const plan::NativeCode &native, const Region &region, const std::string &key);

  const plan::Plan *plan_;
  bool isOfOtherSizes_ = false;
  const std::shared_ptr<RegionCompiler> next_; // may be null
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const RegionCode>> codes_; // by regionKey()
  Stats stats_;
};

} // namespace opc::runtime
