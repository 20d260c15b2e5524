// How a kernel says, while it binds, that it has taken a constant input's contents into a form of its own; and how
// kernels of graphs that are the same share such forms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace opc::user_op {

/// To be called from Bind for an input for which ctx->isConstant() holds, when the bound kernel will not read it: its
/// memory may be given back once all its readers have said so. Binding again reads it anew. No effect when the op
/// instance has no such argument.
void notePackedInput(KernelBindContext *ctx, const std::string &arg, int32_t index = 0);

/// The host's side: the addresses of the inputs that kernels noted in this thread since the last call.
std::vector<const void *> takePackedInputs();

/// What `make` gives; while a PackSharing lives in this thread, what it gave before for the same key. The key says what
/// is packed, from where, and into which form; "" shares nothing.
std::shared_ptr<const void> sharedPack(const std::string &key,
                                       const std::function<std::shared_ptr<const void>()> &make);

/// While it lives, kernels that bind in this thread share what they pack from the same inputs: of a graph that several
/// threads have, each on its own, the weights are in memory once.
class PackSharing {
public:
  PackSharing();
  ~PackSharing();
  PackSharing(const PackSharing &) = delete;
  PackSharing &operator=(const PackSharing &) = delete;

private:
  friend std::shared_ptr<const void> sharedPack(const std::string &,
                                                const std::function<std::shared_ptr<const void>()> &);
  struct Packs;
  static thread_local Packs *current_;
  std::unique_ptr<Packs> packs_;
  Packs *outer_;
};

} // namespace opc::user_op
