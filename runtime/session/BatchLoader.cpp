// The order of examples, and feeding them.
// SPDX-License-Identifier: Apache-2.0
#include "BatchLoader.h"

#include "TensorFormat.h"
#include "opc/Philox.h"

#include <cstring>
#include <numeric>

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

} // namespace

Status BatchLoader::checkType(const user_op::TensorDesc &type, const PortInfo &input) {
  const Shape &have = type.shape(), &want = input.desc.shape();
  if (type.data_type() != input.desc.data_type())
    return Status(StatusCode::kUsage, "OPC0703",
                  dataSetOf(input.name) + " is " + dataTypeName(type.data_type()) + ", the input is " +
                      dataTypeName(input.desc.data_type()));
  bool fits = have.NumAxes() >= 1 && have.NumAxes() == want.NumAxes();
  for (int64_t d = 1; fits && d < have.NumAxes(); ++d) fits = have.At(d) == want.At(d);
  if (fits) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0704",
                dataSetOf(input.name) + " is " + type.toString() + ", the input is " + input.desc.toString() +
                    ": they may differ in the first dimension alone");
}

Result<BatchLoader> BatchLoader::create(const Session &session, std::vector<Source> sources, bool shuffle,
                                        uint64_t seed) {
  int64_t examples = -1, batch = -1;
  for (const Source &s : sources) {
    const PortInfo *port = nullptr;
    for (const PortInfo &p : session.interface().inputs)
      if (p.name == s.input) port = &p;
    if (!port) return Status(StatusCode::kUsage, "OPC0611", "the graph has no input '" + s.input + "'");
    const Shape &have = s.data.desc().shape(), &want = port->desc.shape();
    OPC_RETURN_IF_ERROR(checkType(s.data.desc(), *port));
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
  const int64_t *examples = order_.batchOf(step);
  for (const Source &s : sources_) {
    OPC_ASSIGN_OR_RETURN(void *const memory, session.inputMemory(s.input));
    char *to = static_cast<char *>(memory);
    const user_op::TensorDesc &d = s.data.desc();
    const size_t bytes = static_cast<size_t>(d.shape().elem_cnt() / d.shape().At(0)) * GetSizeOfDataType(d.data_type());
    for (int64_t i = 0; i < order_.batch(); ++i)
      std::memcpy(to + static_cast<size_t>(i) * bytes, s.data.data() + static_cast<size_t>(examples[i]) * bytes, bytes);
  }
  return Status::ok();
}

} // namespace opc
