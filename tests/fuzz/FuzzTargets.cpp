// The list of targets, and what they share.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include <cstdio>
#include <cstdlib>

namespace opc::fuzz {

const std::vector<FuzzTarget> &fuzzTargets() {
  static const std::vector<FuzzTarget> targets = {
      {"graph_text", fuzzGraphText, nullptr},
      {"graph_binary", fuzzGraphBinary, mutateGraph},
      {"plan", fuzzPlan, mutatePlan},
      {"onnx_model", fuzzOnnxModel, mutateOnnxModel},
      {"npy", fuzzNpy, nullptr},
      {"npz", fuzzNpz, nullptr},
      {"safetensors", fuzzSafetensors, nullptr},
      {"safetensors_index", fuzzSafetensorsIndex, nullptr},
      {"onnx_tensor", fuzzOnnxTensor, nullptr},
      {"tensor_spec", fuzzTensorSpec, nullptr},
      {"settings", fuzzSettings, nullptr},
      {"cluster", fuzzCluster, nullptr},
      {"op_manifest", fuzzOpManifest, nullptr},
  };
  return targets;
}

const FuzzTarget *findFuzzTarget(const std::string &name) {
  for (const FuzzTarget &t : fuzzTargets())
    if (name == t.name) return &t;
  return nullptr;
}

void violated(const char *target, const std::string &why) {
  std::fprintf(stderr, "fuzz: %s: %s\n", target, why.c_str());
  std::fflush(stderr);
  std::abort();
}

void expectProperError(const char *target, const Status &status) {
  if (status.isOk()) return;
  if (status.message().empty()) violated(target, "an error without a message");
  if (status.id().empty()) violated(target, "an error without a code: " + status.message());
  if (status.code() == StatusCode::kInternal) violated(target, "an internal error: " + status.toString());
}

} // namespace opc::fuzz
