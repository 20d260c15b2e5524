// Ranks with a simulated device each exchange a tensor or two in a few steps, without a plan: what they have is written
// over right behind each step. Prints what they got; tests take single calls of the driver away (exchange_mutants.py).
// SPDX-License-Identifier: Apache-2.0
#include "DeviceExchange.h"
#include "InProcessCommunicator.h"
#include "cuda/CudaDevice.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace {

using namespace opc;
using namespace opc::runtime;

constexpr int kSteps = 3;

SbpParallel split(int64_t axis) { return SbpParallel::split(axis); }
const SbpParallel B = SbpParallel::broadcast(), P = SbpParallel::partialSum();

struct Rank {
  std::vector<BoxingOp> ops;
  int64_t rank = 0;
  std::string text;

  static cuda::CuPointer at(const DeviceMemory &m, size_t offset = 0) {
    return reinterpret_cast<cuda::CuPointer>(m.data() + offset);
  }
  static size_t bytesOf(const BoxingOp &op, const NdSbp &state, const Placement &mesh, int64_t rank) {
    const auto position = mesh.positionOf(rank);
    return position ? static_cast<size_t>(localBox(op.shape, state, mesh.dims, *position).elements()) * sizeof(float)
                    : 0;
  }
  /// 1, 2, 3... of the whole tensor's places, times the number of the step; of addends times that of the rank.
  std::vector<float> valueOf(const BoxingOp &op, int step) const {
    const Box box = localBox(op.shape, op.step.from, op.source.dims, *op.source.positionOf(rank));
    const auto columns = op.shape.At(1);
    std::vector<float> values;
    for (int64_t i = 0; i < box.size[0]; ++i)
      for (int64_t j = 0; j < box.size[1]; ++j)
        values.push_back(static_cast<float>(((box.begin[0] + i) * columns + box.begin[1] + j + 1) * (step + 1) *
                                            (op.step.from[0].has_partial_sum_parallel() ? rank + 1 : 1)));
    return values;
  }

  Status run(Communicator &comm) {
    OPC_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, openDevice("sim:" + std::to_string(rank)));
    auto &cuda = static_cast<CudaDevice &>(*device);
    const cuda::CudaDriver &d = cuda.driver();
    const std::unique_ptr<Stream> stream = device->createStream(1);
    stream->enter();
    CUstream_st *s = stream->context()->cuda_stream();
    OPC_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceExchange> exchange, DeviceExchange::open(device.get(), comm, {}));
    if (!ops[0].source.positionOf(rank) && !ops[0].target.positionOf(rank)) { // it has no part
      OPC_RETURN_IF_ERROR(comm.barrier());
      return comm.barrier();
    }
    OPC_ASSIGN_OR_RETURN(BoxingExecutor executor, BoxingExecutor::create(ops, rank));
    OPC_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBoxing> boxing, exchange->prepare(ops, executor, comm, 0));
    struct Tensor {
      size_t in = 0, out = 0;
      DeviceMemory given, input, output, got; // given and got: of all steps
    };
    std::vector<Tensor> tensors;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (const BoxingOp &op : ops) {
      Tensor t;
      t.in = bytesOf(op, op.step.from, op.source, rank), t.out = bytesOf(op, op.step.to, op.target, rank);
      OPC_ASSIGN_OR_RETURN(t.given, device->allocateUnwritten(t.in * kSteps));
      OPC_ASSIGN_OR_RETURN(t.input, device->allocateUnwritten(t.in));
      OPC_ASSIGN_OR_RETURN(t.output, device->allocateUnwritten(t.out));
      OPC_ASSIGN_OR_RETURN(t.got, device->allocateUnwritten(t.out * kSteps));
      for (int k = 0; k < kSteps && t.in; ++k)
        OPC_RETURN_IF_ERROR(
            device->copyFromHost(*stream, t.given.data() + static_cast<size_t>(k) * t.in, valueOf(op, k).data(), t.in));
      inputs.push_back(t.input.data()), outputs.push_back(t.output.data());
      tensors.push_back(std::move(t));
    }
    OPC_RETURN_IF_ERROR(stream->synchronize());
    OPC_ASSIGN_OR_RETURN(const DeviceMemory scratch, device->allocateUnwritten(boxing->deviceBytes()));
    const std::unique_ptr<Device> cpu = device->besideCpu();
    OPC_ASSIGN_OR_RETURN(const DeviceMemory host, cpu->allocate(boxing->hostBytes()));
    DeviceBoxing::Scratch places;
    places.device = reinterpret_cast<char *>(scratch.data()), places.host = reinterpret_cast<char *>(host.data());
    const auto writeOver = [&](const DeviceMemory &m) {
      return m.bytes() ? d.check(d.setBytes(at(m), 0xcd, m.bytes(), s), "writing over") : Status::ok();
    };
    for (size_t k = 0; k < kSteps; ++k) {
      for (const Tensor &t : tensors)
        if (t.in) OPC_RETURN_IF_ERROR(d.check(d.copyOnDevice(at(t.input), at(t.given, k * t.in), t.in, s), "giving"));
      OPC_RETURN_IF_ERROR(boxing->run(comm, *stream, inputs.data(), outputs.data(), places));
      for (const Tensor &t : tensors) {
        if (t.out) OPC_RETURN_IF_ERROR(d.check(d.copyOnDevice(at(t.got, k * t.out), at(t.output), t.out, s), "taking"));
        OPC_RETURN_IF_ERROR(writeOver(t.input));
        OPC_RETURN_IF_ERROR(writeOver(t.output));
      }
      OPC_RETURN_IF_ERROR(writeOver(scratch));
    }
    OPC_RETURN_IF_ERROR(comm.barrier()); // who waits for a device now orders nothing that others still have to do
    OPC_RETURN_IF_ERROR(exchange->finish(*stream));
    for (const Tensor &t : tensors) {
      std::vector<float> got(t.out * kSteps / sizeof(float));
      if (t.out) OPC_RETURN_IF_ERROR(device->copyToHost(*stream, got.data(), t.got.data(), t.out * kSteps));
      for (int k = 0; k < kSteps; ++k) {
        double sum = 0; // exact: whole numbers
        const size_t n = t.out / sizeof(float);
        for (size_t i = 0; i < n; ++i) sum += static_cast<double>(i + 1) * got[static_cast<size_t>(k) * n + i];
        char word[40];
        std::snprintf(word, sizeof word, " %.0f", sum);
        text += word;
      }
    }
    OPC_RETURN_IF_ERROR(stream->synchronize());
    return comm.barrier(); // memory that others may still read
  }
};

std::vector<BoxingOp> opsOf(const std::string &kind, int64_t ranks) {
  const Placement mesh = Placement::dense({ranks});
  const auto step = [&](BoxingKind k, SbpParallel from, SbpParallel to) {
    return BoxingStep{k, 0, {from}, {to}, BoxingReduction::kSum};
  };
  const std::map<std::string, BoxingStep> steps = {{"sum", step(BoxingKind::kAllReduce, P, B)},
                                                   {"bucket", step(BoxingKind::kAllReduce, P, B)},
                                                   {"sum_rows", step(BoxingKind::kReduceScatter, P, split(0))},
                                                   {"sum_columns", step(BoxingKind::kReduceScatter, P, split(1))},
                                                   {"gather_rows", step(BoxingKind::kAllGather, split(0), B)},
                                                   {"gather_columns", step(BoxingKind::kAllGather, split(1), B)},
                                                   {"exchange", step(BoxingKind::kAllToAll, split(0), split(1))},
                                                   {"hand_on", step(BoxingKind::kExchange, B, B)}};
  const auto found = steps.find(kind);
  if (found == steps.end()) return {};
  BoxingOp op{found->second, Shape({7, 100}), kFloat, mesh, mesh};
  if (kind == "hand_on") {
    op.step.meshDim = -1;
    op.source = Placement::dense({1}), op.target = Placement::dense({1}, ranks - 1);
  }
  std::vector<BoxingOp> ops{op};
  if (kind == "bucket") ops.push_back({found->second, Shape({1, 300}), kFloat, mesh, mesh});
  return ops;
}

} // namespace

int main(int argc, char **argv) {
  const int64_t ranks = argc == 3 ? std::strtoll(argv[2], nullptr, 10) : 0;
  const std::vector<BoxingOp> ops = ranks > 1 ? opsOf(argv[1], ranks) : std::vector<BoxingOp>();
  if (ops.empty()) {
    std::fprintf(stderr,
                 "usage: opc_gpusim_exchanges sum|bucket|sum_rows|sum_columns|gather_rows|gather_columns|exchange|"
                 "hand_on RANKS\n");
    return 2;
  }
  InProcessOptions engine;
  engine.timeout = std::chrono::milliseconds(30000);
  const auto ends = inProcessCommunicators(ranks, engine);
  std::vector<Rank> all(static_cast<size_t>(ranks));
  std::vector<Status> status(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < all.size(); ++r)
    threads.emplace_back([&, r] {
      all[r].ops = ops, all[r].rank = static_cast<int64_t>(r);
      status[r] = all[r].run(*ends[r]);
      if (!status[r].isOk()) ends[r]->abort(status[r].id() + ": " + status[r].message());
    });
  for (std::thread &t : threads) t.join();
  std::printf("%s\n", lastExchange().c_str());
  for (size_t r = 0; r < all.size(); ++r) {
    if (!status[r].isOk()) return std::fprintf(stderr, "%s\n", status[r].toString().c_str()), 1;
    std::printf("%zu:%s\n", r, all[r].text.c_str());
  }
  return 0;
}
