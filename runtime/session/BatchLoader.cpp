// The order of examples, and feeding them.
// SPDX-License-Identifier: Apache-2.0
#include "BatchLoader.h"

#include "TensorFormat.h"
#include "opc/Philox.h"

#include <cstring>
#include <numeric>
#include <optional>

namespace opc {

const int64_t *BatchOrder::batchOf(int64_t step) {
  if (!shuffle_) {
    order_.resize(static_cast<size_t>(batch_));
    std::iota(order_.begin(), order_.end(), step % stepsPerEpoch() * batch_);
    return order_.data();
  }
  const int64_t epoch = step / stepsPerEpoch();
  if (epoch != epoch_) {
    order_.resize(static_cast<size_t>(examples_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    for (int64_t i = examples_ - 1; i > 0; --i) { // 64 bits make the bias of the product negligible
      const Philox::Block b = Philox::at(seed_, static_cast<uint64_t>(epoch), static_cast<uint64_t>(i));
      const uint64_t bits = (static_cast<uint64_t>(b[0]) << 32) | b[1];
      const auto j = static_cast<size_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1)) >> 64);
      std::swap(order_[static_cast<size_t>(i)], order_[j]);
    }
  }
  epoch_ = epoch;
  return order_.data() + step % stepsPerEpoch() * batch_;
}

namespace {

std::string dataSetOf(const std::string &input) { return "the data set of input '" + input + "'"; }

const PortInfo *inputOf(const Session &session, const std::string &name) {
  for (const PortInfo &p : session.interface().inputs)
    if (p.name == name) return &p;
  return nullptr;
}

Status noInput(const std::string &name) {
  return Status(StatusCode::kUsage, "OPC0611", "the graph has no input '" + name + "'");
}

} // namespace

Status BatchLoader::checkType(const user_op::TensorDesc &type, const PortInfo &input) {
  const Shape &have = type.shape(), &want = input.desc.shape();
  if (type.data_type() != input.desc.data_type())
    return Status(StatusCode::kUsage, "OPC0703",
                  dataSetOf(input.name) + " is " + dataTypeName(type.data_type()) + ", the input is " +
                      dataTypeName(input.desc.data_type()));
  bool fits = have.NumAxes() == want.NumAxes();
  for (int64_t d = 1; fits && d < have.NumAxes(); ++d) fits = have.At(d) == want.At(d);
  if (fits) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0704",
                dataSetOf(input.name) + " is " + type.toString() + ", the input is " + input.desc.toString() +
                    (want.NumAxes() == 0 ? ": it has no first dimension in which they may differ"
                                         : ": they may differ in the first dimension alone"));
}

bool BatchLoader::isWhole(const Session &session, const std::vector<Source> &sources) {
  std::optional<int64_t> batch;
  bool isSame = true, hasExamples = true;
  for (const Source &s : sources) {
    const PortInfo *port = inputOf(session, s.input);
    isSame = isSame && port && port->desc.shape() == s.data.desc().shape();
    if (!isSame) return false;
    const Shape &shape = port->desc.shape();
    hasExamples = hasExamples && shape.NumAxes() > 0 && shape.At(0) > 0 && batch.value_or(shape.At(0)) == shape.At(0);
    if (shape.NumAxes() > 0) batch = shape.At(0);
  }
  return !hasExamples;
}

Result<BatchLoader> BatchLoader::whole(const Session &session, std::vector<Source> sources) {
  for (const Source &s : sources) {
    const PortInfo *port = inputOf(session, s.input);
    if (!port) return noInput(s.input);
    OPC_RETURN_IF_ERROR(checkType(s.data.desc(), *port));
    if (s.data.desc().shape() != port->desc.shape())
      return Status(StatusCode::kUsage, "OPC0704",
                    dataSetOf(s.input) + " is " + s.data.desc().toString() + ", the input is " + port->desc.toString());
  }
  BatchLoader loader(std::move(sources), BatchOrder(1, 1, false, 0));
  loader.isWhole_ = true;
  return loader;
}

Result<BatchLoader> BatchLoader::create(const Session &session, std::vector<Source> sources, bool shuffle,
                                        uint64_t seed) {
  int64_t examples = -1, batch = -1;
  for (const Source &s : sources) {
    const PortInfo *port = inputOf(session, s.input);
    if (!port) return noInput(s.input);
    const Shape &have = s.data.desc().shape(), &want = port->desc.shape();
    OPC_RETURN_IF_ERROR(checkType(s.data.desc(), *port));
    if (want.NumAxes() == 0)
      return Status(StatusCode::kUsage, "OPC0704",
                    "input '" + s.input + "' is " + port->desc.toString() + ": it has no first dimension for examples");
    if (batch >= 0 && want.At(0) != batch)
      return Status(StatusCode::kUsage, "OPC0704",
                    "input '" + s.input + "' takes batches of " + std::to_string(want.At(0)) + ", input '" +
                        sources[0].input + "' of " + std::to_string(batch))
          .withHelp("--batch N gives all of them one size");
    if (examples >= 0 && have.At(0) != examples)
      return Status(StatusCode::kUsage, "OPC0704",
                    dataSetOf(s.input) + " has " + std::to_string(have.At(0)) + " examples, that of '" +
                        sources[0].input + "' " + std::to_string(examples));
    batch = want.At(0);
    examples = have.At(0);
  }
  if (batch < 1 || examples < batch)
    return Status(StatusCode::kUsage, "OPC0704",
                  "the data sets have " + std::to_string(std::max<int64_t>(examples, 0)) + " examples, a batch has " +
                      std::to_string(std::max<int64_t>(batch, 0)));
  const BatchOrder order(examples, batch, shuffle, seed);
  if (Status s = checkReadLimit(order.tableBytes(), "the order of " + std::to_string(examples) + " examples"); !s)
    return Status(s.code(), s.id(), s.message())
        .withHelp("raise --max-memory, or leave out --shuffle: as they lie in the file they need no table");
  return BatchLoader(std::move(sources), order);
}

Status BatchLoader::feed(Session &session, int64_t step) {
  const auto checkFiles = [this] {
    for (const Source &s : sources_) OPC_RETURN_IF_ERROR(s.data.isWhole());
    return Status::ok();
  };
  OPC_RETURN_IF_ERROR(checkFiles());
  const int64_t *examples = order_.batchOf(step);
  for (const Source &s : sources_) {
    OPC_ASSIGN_OR_RETURN(void *const memory, session.inputMemory(s.input));
    char *to = static_cast<char *>(memory);
    const user_op::TensorDesc &d = s.data.desc();
    if (isWhole_) {
      const size_t all = static_cast<size_t>(d.shape().elem_cnt()) * GetSizeOfDataType(d.data_type());
      if (all > 0) std::memcpy(to, s.data.data(), all);
      continue;
    }
    const size_t bytes = static_cast<size_t>(d.shape().elem_cnt() / d.shape().At(0)) * GetSizeOfDataType(d.data_type());
    for (int64_t i = 0; i < order_.batch(); ++i)
      std::memcpy(to + static_cast<size_t>(i) * bytes, s.data.data() + static_cast<size_t>(examples[i]) * bytes, bytes);
  }
  return checkFiles();
}

} // namespace opc
