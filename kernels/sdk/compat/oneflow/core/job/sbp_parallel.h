// SbpParallel and SbpSignature, which are the SDK's, and a list of signatures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"

namespace oneflow {

/// Signatures in OneFlow's form; a UserOpSbpSignatureBuilder can fill it.
struct SbpSignatureList : std::vector<SbpSignature> {
  const std::vector<SbpSignature> &sbp_signature() const { return *this; }
  std::vector<SbpSignature> *mutable_sbp_signature() { return this; }
};

} // namespace oneflow
