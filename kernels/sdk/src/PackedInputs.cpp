// The note that passes from a kernel's Bind to the host, in the thread that binds.
// SPDX-License-Identifier: Apache-2.0
#include "opc/PackedInputs.h"

#include <map>
#include <utility>

namespace opc::user_op {

static thread_local std::vector<const void *> packed;

void notePackedInput(KernelBindContext *ctx, const std::string &arg, int32_t index) {
  if (const Tensor *t = ctx->Tensor4ArgNameAndIndex(arg, index)) packed.push_back(t->raw_dptr());
}

std::vector<const void *> takePackedInputs() { return std::exchange(packed, {}); }

struct PackSharing::Packs {
  std::map<std::string, std::shared_ptr<const void>> byKey;
};

thread_local PackSharing::Packs *PackSharing::current_ = nullptr;

PackSharing::PackSharing() : packs_(std::make_unique<Packs>()), outer_(std::exchange(current_, packs_.get())) {}
PackSharing::~PackSharing() { current_ = outer_; }

std::shared_ptr<const void> sharedPack(const std::string &key,
                                       const std::function<std::shared_ptr<const void>()> &make) {
  if (!PackSharing::current_ || key.empty()) return make();
  std::shared_ptr<const void> &pack = PackSharing::current_->byKey[key];
  if (!pack) pack = make();
  return pack;
}

} // namespace opc::user_op
