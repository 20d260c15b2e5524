// The list of targets, and what they share.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "Session.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

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

Result<Session> loadMade(const char *target, const std::string &plan) {
  SessionOptions options;
  options.threads = 1;
  options.maxMemory = 4 << 20;
  Result<Session> session = Session::load(plan, test::registry(), options);
  if (!session) {
    expectProperError(target, session.status());
    if (session.status().code() != StatusCode::kUnsupported)
      violated(target, "the runtime refuses the compiler's plan: " + session.status().toString());
  }
  return session;
}

void fillInputs(const char *target, Session &session) {
  for (const PortInfo &port : session.interface().inputs) {
    auto *data = static_cast<unsigned char *>(session.inputData(port.name));
    if (!data) violated(target, "an input of the interface has no memory");
    const size_t bytesEach = GetSizeOfDataType(port.desc.data_type());
    const auto count = static_cast<size_t>(port.desc.shape().elem_cnt());
    for (size_t i = 0; i < count; ++i) {
      std::memset(data + i * bytesEach, i % 8 == 7 ? 0xf5 : 0, bytesEach);
      if (i % 8 != 7) data[i * bytesEach] = static_cast<unsigned char>(i % 3);
      if (port.desc.data_type() == kBool) data[i] = i % 2;
    }
  }
}

void expectProperError(const char *target, const Status &status) {
  if (status.isOk()) return;
  if (status.message().empty()) violated(target, "an error without a message");
  if (status.id().empty()) violated(target, "an error without a code: " + status.message());
  if (status.code() == StatusCode::kInternal) violated(target, "an internal error: " + status.toString());
}

} // namespace opc::fuzz
