// Every rank does the same thing at the same time, for a given time; what counts is the best of some batches:
// other processes only make a batch slower.
// SPDX-License-Identifier: Apache-2.0
#include "Measurement.h"

#include "BoxingExecutor.h"
#include "Device.h"
#include "KernelTask.h"
#include "RunOp.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace opc::runtime {
namespace {

using Clock = std::chrono::steady_clock;
// Batches of ops are shorter than a time slice: where other processes want the cores, some batch is still undisturbed.
constexpr int kOpBatches = 100, kStepBatches = 7;
constexpr int kMostCopies = 64;
constexpr int64_t kProductSizes[] = {16, 32, 64, 96, 128, 192, 256, 384, 512};
constexpr int64_t kStepElements[] = {64, 1024, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
constexpr int64_t kLargeElements = 4 << 20;

double secondsSince(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

user_op::TensorDesc f32(Shape s) { return {std::move(s), kFloat}; }

Result<OpInstance> instance(const Registry &registry, const std::string &type,
                            const std::vector<std::pair<std::string, user_op::TensorDesc>> &inputs) {
  if (!registry.findOp(type))
    return Status(StatusCode::kUnsupported, "OPC0748", "this build has no op " + type + " to measure with");
  return instanceOf(registry, {type, inputs, {}, {}});
}

/// A kernel on several sets of buffers in turn, so that it finds its data where it does in a plan: not in the nearest
/// cache.
class Bench {
public:
  static Result<Bench> create(const OpUnderTest &what, const Registry &registry, DeviceCtx *ctx, uint64_t footprint) {
    OPC_ASSIGN_OR_RETURN(const user_op::KernelDef *kernel, what.op.selectKernel(registry, DeviceType::kCPU));
    OPC_ASSIGN_OR_RETURN(const uint64_t workspace, what.op.tmpSize(*kernel));
    std::vector<uint64_t> sizes;
    uint64_t total = workspace;
    for (const auto *list : {&what.op.inputDescs(), &what.op.outputDescs()})
      for (const user_op::TensorDesc &d : *list) {
        OPC_ASSIGN_OR_RETURN(const int64_t bytes, tensorBytes(d));
        sizes.push_back((static_cast<uint64_t>(bytes) + 63) / 64 * 64);
        total += sizes.back();
      }
    Bench b;
    b.ctx_ = ctx;
    const auto copies = std::clamp<uint64_t>(footprint / std::max<uint64_t>(1, total), 1, kMostCopies);
    for (uint64_t c = 0; c < copies; ++c) {
      std::vector<void *> data;
      size_t i = 0;
      for (uint64_t size : sizes) {
        void *p = b.allocate(size);
        const bool isInput = i < what.op.inputDescs().size();
        if (isInput) fill(what.op.inputDescs()[i], p);
        data.push_back(p);
        ++i;
      }
      std::vector<bool> constant = what.constant;
      constant.resize(what.op.inputDescs().size(), false);
      OPC_ASSIGN_OR_RETURN(auto task, KernelTask::create(OpInstance(what.op), *kernel, ctx, data, constant,
                                                         b.allocate(workspace), workspace));
      b.tasks_.push_back(std::move(task));
    }
    for (auto &t : b.tasks_) OPC_RETURN_IF_ERROR(t->run(ctx)); // and that it runs at all
    return b;
  }

  Status runOnce() {
    KernelTask &t = *tasks_[next_];
    next_ = next_ + 1 == tasks_.size() ? 0 : next_ + 1;
    return t.run(ctx_);
  }

private:
  void *allocate(uint64_t bytes) {
    storage_.emplace_back(new char[bytes + 64]());
    return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(storage_.back().get()) + 63) / 64 * 64);
  }
  /// Numbers in [0.5, 1): no denormals, no infinities, positive for logarithms. Integers stay 0, an index of any table.
  static void fill(const user_op::TensorDesc &desc, void *data) {
    const int64_t n = desc.shape().elem_cnt();
    const auto value = [](int64_t i) { return 0.5 + static_cast<double>(i * 7919 % 4096) / 8192; };
    if (desc.data_type() == kFloat)
      for (int64_t i = 0; i < n; ++i) static_cast<float *>(data)[i] = static_cast<float>(value(i));
    else if (desc.data_type() == kDouble)
      for (int64_t i = 0; i < n; ++i) static_cast<double *>(data)[i] = value(i);
  }

  DeviceCtx *ctx_ = nullptr;
  std::vector<std::unique_ptr<char[]>> storage_;
  std::vector<std::unique_ptr<KernelTask>> tasks_;
  size_t next_ = 0;
};

class Measuring {
public:
  Measuring(Communicator &comm, const Registry &registry, const MeasureOptions &options)
      : comm_(comm), registry_(registry), options_(options), device_(std::move(*openDevice("cpu"))),
        stream_(device_->createStream(options.threads)) {}

  Result<MachineMeasurement> run(const std::vector<OpUnderTest> &ops) {
    stream_->enter();
    stream_->beginStep(0, 0);
    MachineMeasurement m;
    m.ranks = comm_.size();
    m.threads = options_.threads;
    if (options_.cores > 0) computing_ = std::clamp<int64_t>(options_.cores / options_.threads, 1, comm_.size());
    m.computing = computing_;
    for (int64_t n : kProductSizes) {
      OPC_ASSIGN_OR_RETURN(OpInstance op, instance(registry_, "matmul", {{"a", f32({n, n})}, {"b", f32({n, n})}}));
      OPC_RETURN_IF_ERROR(measureOp({std::move(op), {}}, &m.products));
    }
    std::vector<MeasuredOpTime> memory;
    for (int64_t n : {kLargeElements, int64_t{16}}) {
      OPC_ASSIGN_OR_RETURN(OpInstance op, instance(registry_, "negative", {{"x", f32({n})}}));
      OPC_RETURN_IF_ERROR(measureOp({std::move(op), {}}, &memory));
    }
    if (m.products.empty() || memory.size() != 2)
      return Status(StatusCode::kUnsupported, "OPC0748", "the kernels that machines are measured with do not run here");
    m.copyBandwidth = memory[0].cost.bytes / memory[0].seconds;
    m.taskOverhead = memory[1].seconds;
    for (const OpUnderTest &op : ops) OPC_RETURN_IF_ERROR(measureOp(op, &m.ops));
    if (comm_.size() > 1) OPC_RETURN_IF_ERROR(measureSteps(&m.steps));
    stream_->endSteps();
    return m;
  }

private:
  /// The mean over the first `ranks`; below 0 on any of them: nothing.
  Result<double> meanOver(double mine, int64_t ranks) {
    std::vector<double> all(static_cast<size_t>(comm_.size()));
    OPC_RETURN_IF_ERROR(comm_.allGatherBytes(&mine, sizeof mine, all.data()));
    all.resize(static_cast<size_t>(ranks));
    double sum = 0;
    for (double s : all) {
      if (s < 0) return -1.0;
      sum += s;
    }
    return sum / static_cast<double>(all.size());
  }

  /// An op that cannot be measured (data that it refuses, too little memory) is left out on all ranks.
  Status measureOp(const OpUnderTest &what, std::vector<MeasuredOpTime> *out) {
    Result<Bench> bench = Bench::create(what, registry_, stream_->context(), options_.footprint);
    OPC_ASSIGN_OR_RETURN(const double ready, meanOver(bench ? 1 : -1, comm_.size()));
    if (ready < 0) return Status::ok();
    std::vector<double> batches;
    bool failed = false;
    OPC_RETURN_IF_ERROR(comm_.barrier());
    const int mine = comm_.rank() < computing_ ? kOpBatches : 0; // the others wait for the result
    for (int b = 0; b < mine && !failed; ++b) {
      const Clock::time_point begin = Clock::now();
      int64_t count = 0;
      double seconds = 0;
      do {
        failed = !bench->runOnce().isOk();
        ++count;
        // Reading the clock costs as much as a small op.
        if (count < 16 || count % 16 == 0) seconds = secondsSince(begin);
      } while (!failed && seconds < options_.seconds / kOpBatches);
      batches.push_back(secondsSince(begin) / static_cast<double>(count));
    }
    const double best = batches.empty() ? 0 : *std::min_element(batches.begin(), batches.end());
    OPC_ASSIGN_OR_RETURN(const double mean, meanOver(failed ? -1 : best, computing_));
    if (mean < 0) return Status::ok();
    MeasuredOpTime t;
    t.op = what.op.def().name;
    t.cost = costOf(what.op);
    t.seconds = mean;
    for (const auto *list : {&what.op.outputDescs(), &what.op.inputDescs()})
      for (const user_op::TensorDesc &d : *list)
        if (IsFloatingDataType(d.data_type())) t.type = d.data_type();
    out->push_back(std::move(t));
    return Status::ok();
  }

  Status measureSteps(std::vector<MeasuredStepTime> *out) {
    const int64_t p = comm_.size();
    const NdSbp rows = {SbpParallel::split(0)}, columns = {SbpParallel::split(1)}, b = {SbpParallel::broadcast()},
                partial = {SbpParallel::partialSum()};
    const std::tuple<BoxingKind, NdSbp, NdSbp> kinds[] = {{BoxingKind::kAllReduce, partial, b},
                                                          {BoxingKind::kReduceScatter, partial, rows},
                                                          {BoxingKind::kAllGather, rows, b},
                                                          {BoxingKind::kAllToAll, rows, columns}};
    for (const auto &[kind, from, to] : kinds)
      for (int64_t elements : kStepElements) {
        BoxingOp op;
        op.step = {kind, 0, from, to, BoxingReduction::kSum};
        const int64_t side = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
        op.shape = Shape({std::max(p, side), std::max(p, side)});
        op.type = kFloat;
        op.source = op.target = Placement::dense({p});
        OPC_ASSIGN_OR_RETURN(const double seconds, measureStep(op));
        out->push_back({op, seconds});
      }
    return Status::ok();
  }

  Result<double> measureStep(const BoxingOp &op) {
    OPC_ASSIGN_OR_RETURN(BoxingExecutor step, BoxingExecutor::create({op}, comm_.rank(), "calibration"));
    // Whole cache lines more than needed: an empty piece still has an address.
    const auto buffer = [](int64_t bytes) { return std::vector<float>(static_cast<size_t>(bytes) / 4 + 16, 1.0f); };
    std::vector<float> in = buffer(step.inputBytes(0)), result = buffer(step.outputBytes(0)),
                       scratch = buffer(static_cast<int64_t>(step.scratchBytes()) + 64);
    void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    const void *inputs[] = {in.data()};
    void *outputs[] = {result.data()};
    const auto once = [&] { return step.run(comm_, 0, inputs, outputs, aligned); };
    OPC_RETURN_IF_ERROR(once());
    Clock::time_point begin = Clock::now();
    for (int i = 0; i < 3; ++i) OPC_RETURN_IF_ERROR(once());
    Result<double> first =
        meanOver(secondsSince(begin) / 3, comm_.size()); // the same on all ranks: all must run as often
    if (!first) return first.status();
    const auto count = static_cast<int64_t>(std::clamp(options_.seconds / kStepBatches / *first, 2.0, 20000.0));
    std::vector<double> batches;
    for (int k = 0; k < kStepBatches; ++k) {
      OPC_RETURN_IF_ERROR(comm_.barrier());
      begin = Clock::now();
      for (int64_t i = 0; i < count; ++i) OPC_RETURN_IF_ERROR(once());
      batches.push_back(secondsSince(begin) / static_cast<double>(count));
    }
    return meanOver(*std::min_element(batches.begin(), batches.end()), comm_.size());
  }

  Communicator &comm_;
  const Registry &registry_;
  const MeasureOptions &options_;
  int64_t computing_ = comm_.size();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

} // namespace

Result<MachineMeasurement> measureMachine(Communicator &comm, const Registry &registry,
                                          const std::vector<OpUnderTest> &ops, const MeasureOptions &options) {
  return Measuring(comm, registry, options).run(ops);
}

} // namespace opc::runtime
