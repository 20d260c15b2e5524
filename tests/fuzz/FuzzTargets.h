// The fuzz targets by name: functions that take any bytes and must neither crash, nor hang, nor fail without a message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TestRegistry.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Message;
}
namespace opc {
class Session;
}

namespace opc::fuzz {

/// Changes a valid message at random places, so that mutations get past the parser. `size` bytes are in `data`, `max`
/// is its capacity; answers the new size, 0 when the input is not such a message.
using Mutator = size_t (*)(uint8_t *data, size_t size, size_t max, uint64_t seed);

struct FuzzTarget {
  const char *name;
  void (*run)(std::string_view bytes);
  Mutator mutate; // nullptr: libFuzzer's own
};

/// All targets, in a fixed order.
const std::vector<FuzzTarget> &fuzzTargets();
const FuzzTarget *findFuzzTarget(const std::string &name);

/// Prints `why` and aborts: the property under test does not hold.
[[noreturn]] void violated(const char *target, const std::string &why);
/// An error must have a code and a message, and be none of opc's own bugs.
void expectProperError(const char *target, const Status &status);
/// What the compiler writes, the runtime takes, memory aside.
Result<Session> loadMade(const char *target, const std::string &plan);
/// All inputs: small numbers and, every eighth element, garbage.
void fillInputs(const char *target, Session &session);

void fuzzGraphText(std::string_view bytes);
void fuzzGraphBinary(std::string_view bytes);
void fuzzPlan(std::string_view bytes);
void fuzzOnnxModel(std::string_view bytes);
void fuzzNpy(std::string_view bytes);
void fuzzNpz(std::string_view bytes);
void fuzzSafetensors(std::string_view bytes);
void fuzzSafetensorsIndex(std::string_view bytes);
void fuzzOnnxTensor(std::string_view bytes);
void fuzzTensorSpec(std::string_view bytes);
void fuzzSettings(std::string_view bytes);
void fuzzCluster(std::string_view bytes);
void fuzzOpManifest(std::string_view bytes);

size_t mutateGraph(uint8_t *data, size_t size, size_t max, uint64_t seed);
size_t mutateOnnxModel(uint8_t *data, size_t size, size_t max, uint64_t seed);
size_t mutatePlan(uint8_t *data, size_t size, size_t max, uint64_t seed);
/// One to four random changes somewhere in the message: a field set, cleared, repeated, removed, swapped, moved.
void mutateMessage(google::protobuf::Message *message, uint64_t seed);
/// The same on the bytes of a message of one type: a Mutator.
template <class Message> size_t mutateAs(uint8_t *data, size_t size, size_t max, uint64_t seed) {
  Message message;
  if (!message.ParsePartialFromArray(data, static_cast<int>(size))) return 0;
  mutateMessage(&message, seed);
  if (message.ByteSizeLong() > max) return 0;
  message.SerializePartialToArray(data, static_cast<int>(max));
  return message.ByteSizeLong();
}

} // namespace opc::fuzz
