// The loops of row functions: conversions around them, blocks of rows.
// SPDX-License-Identifier: Apache-2.0
#include "StagedRanges.h"

#include "opc/RowsKernel.h"

#include <algorithm>
#include <cstring>

namespace opc::user_op {
namespace {

constexpr int64_t kGrain = 8192;         // elements of the rows that a thread takes at a time
constexpr size_t kAlignment = 64;        // of what is converted
constexpr int64_t kBlockElements = 4096; // of rows that are converted at once

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class T> class FunctionLoop final : public RowsLoop {
public:
  FunctionLoop(const KernelContext &ctx, RowFunction<T> function) : f_(std::move(function)) {
    rows = f_.rows;
    size = f_.size;
    places(ctx, ctx.inputs(), f_.inputs, &in_, &inputs);
    places(ctx, ctx.outputs(), f_.outputs, &out_, &outputs);
  }

  void Check(const void *const *in) const override {
    if (!f_.check) return;
    RowArguments<T> args;
    for (size_t k = 0; k < in_.size(); ++k) args.in[in_[k].slot] = in[k];
    f_.check(args);
  }

  size_t ScratchBytes(int64_t count) const override {
    size_t bytes = 0;
    for (const auto *list : {&in_, &out_})
      for (const Place &p : *list)
        if (p.isConverted) bytes += aligned(static_cast<size_t>(elements(p, count)) * sizeof(T));
    return bytes;
  }

  void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *scratch) const override {
    RowArguments<T> args;
    args.first = first;
    args.count = count;
    char *free = static_cast<char *>(scratch);
    auto take = [&](const Place &p) {
      T *taken = reinterpret_cast<T *>(free);
      free += aligned(static_cast<size_t>(elements(p, count)) * sizeof(T));
      return taken;
    };
    for (size_t k = 0; k < in_.size(); ++k) {
      const Place &p = in_[k];
      args.in[p.slot] = in[k];
      if (!p.isConverted) continue;
      T *converted = take(p);
      widenRange(in[k], p.type, converted, 0, elements(p, count));
      args.in[p.slot] = converted;
    }
    for (size_t k = 0; k < out_.size(); ++k)
      args.out[out_[k].slot] = out_[k].isConverted ? take(out_[k]) : static_cast<T *>(out[k]);
    f_.run(args);
    for (size_t k = 0; k < out_.size(); ++k)
      if (const Place &p = out_[k]; p.isConverted) narrowRange(args.out[p.slot], out[k], p.type, 0, elements(p, count));
  }

private:
  struct Place {
    size_t slot; // in RowArguments
    RowPart part;
    DataType type;
    int64_t whole; // elements
    bool isConverted;
  };
  int64_t elements(const Place &p, int64_t count) const {
    return p.part == RowPart::kRow ? count * size : p.part == RowPart::kWhole ? p.whole : count;
  }

  static void places(const KernelContext &ctx, const ArgList &given,
                     const std::vector<typename RowFunction<T>::Argument> &known, std::vector<Place> *places,
                     std::vector<RowPart> *parts) {
    for (const auto &[name, number] : given) {
      const auto it = std::find_if(known.begin(), known.end(), [&](const auto &a) { return name == a.name; });
      if (it == known.end() || number != 0 || known.size() > RowArguments<T>::kMost)
        throw ContractError("a row function knows no argument " + name);
      const TensorDesc &desc = ctx.Desc(name, number);
      const bool converts = IsFloatingDataType(desc.data_type()) && desc.data_type() != GetDataType<T>::value;
      places->push_back(
          {static_cast<size_t>(it - known.begin()), it->part, desc.data_type(), desc.shape().elem_cnt(), converts});
      parts->push_back(it->part);
    }
  }

  RowFunction<T> f_;
  std::vector<Place> in_, out_;
};

struct Operand {
  char *data;
  int64_t bytesOfRow; // 0: the same for all rows
};

int64_t bytesOfRow(const RowsLoop &loop, RowPart part, DataType type) {
  const auto element = static_cast<int64_t>(GetSizeOfDataType(type));
  return part == RowPart::kRow ? loop.size * element : part == RowPart::kWhole ? 0 : element;
}

/// Rows [begin, end), a block at a time where they are converted.
void runRows(const RowsLoop &loop, const std::vector<Operand> &in, const std::vector<Operand> &out, int64_t begin,
             int64_t end) {
  const bool converts = loop.ScratchBytes(1) > 0;
  const int64_t block = converts ? std::max<int64_t>(1, kBlockElements / std::max<int64_t>(loop.size, 1)) : end - begin;
  Scratch<char> scratch(static_cast<int64_t>(converts ? loop.ScratchBytes(std::min(block, end - begin)) : 0));
  const void *from[RowArguments<float>::kMost] = {};
  void *to[RowArguments<float>::kMost] = {};
  for (; begin < end; begin += block) {
    for (size_t k = 0; k < in.size(); ++k) from[k] = in[k].data + begin * in[k].bytesOfRow;
    for (size_t k = 0; k < out.size(); ++k) to[k] = out[k].data + begin * out[k].bytesOfRow;
    loop.Run(from, to, begin, std::min(block, end - begin), scratch.get());
  }
}

} // namespace

template <class T> std::unique_ptr<RowsLoop> makeRowsLoop(const KernelContext &ctx, RowFunction<T> function) {
  return std::make_unique<FunctionLoop<T>>(ctx, std::move(function));
}
template std::unique_ptr<RowsLoop> makeRowsLoop<float>(const KernelContext &, RowFunction<float>);
template std::unique_ptr<RowsLoop> makeRowsLoop<double>(const KernelContext &, RowFunction<double>);

std::unique_ptr<BoundKernel> bindRowsLoop(KernelBindContext *ctx, std::shared_ptr<const RowsLoop> loop) {
  std::vector<Operand> in, out;
  std::vector<const void *> checked;
  for (const auto &[name, number] : ctx->inputs()) {
    const Tensor &t = ctx->In(name, number);
    const RowPart part = loop->inputs[in.size()];
    in.push_back({static_cast<char *>(const_cast<void *>(t.raw_dptr())), bytesOfRow(*loop, part, t.data_type())});
    checked.push_back(part == RowPart::kIndex || part == RowPart::kWhole ? t.raw_dptr() : nullptr);
  }
  for (const auto &[name, number] : ctx->outputs()) {
    Tensor &t = ctx->Out(name, number);
    out.push_back({static_cast<char *>(t.mut_raw_dptr()), bytesOfRow(*loop, loop->outputs[out.size()], t.data_type())});
  }
  return bindTask(
      [loop = std::move(loop), in = std::move(in), out = std::move(out), checked = std::move(checked)](DeviceCtx *dev) {
        loop->Check(checked.data());
        dev->parallelFor(loop->rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(loop->size, 1)),
                         [&](int64_t begin, int64_t end) { runRows(*loop, in, out, begin, end); });
      });
}

} // namespace opc::user_op
