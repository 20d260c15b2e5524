// Proves or refutes SBP signatures by execution.
#include "SignatureCheck.h"
#include "MutableInputs.h"
#include "OpInstance.h"
#include "Signatures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

namespace opc {
namespace {

using user_op::Case;
using user_op::OpDef;
using user_op::TensorDesc;

/// A tensor's description and bytes, with room behind the last element for vector loads.
struct Block {
  TensorDesc desc;
  std::vector<char> bytes;
  void resize() { bytes.assign(size() + 64, 0); }
  size_t size() const { return static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type()); }
};

template <class F> void withType(DataType type, F &&f) {
  switch (type) {
  case kFloat: return f(float());
  case kDouble: return f(double());
  case kFloat16: return f(float16());
  case kBFloat16: return f(bfloat16());
  case kInt8: return f(int8_t());
  case kInt16: return f(int16_t());
  case kInt32: return f(int32_t());
  case kInt64: return f(int64_t());
  case kUInt8: return f(uint8_t());
  case kUInt16: return f(uint16_t());
  case kUInt32: return f(uint32_t());
  case kUInt64: return f(uint64_t());
  case kBool: return f(uint8_t());
  default: return;
  }
}
template <class T> double toDouble(T v) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(v);
  else
    return static_cast<double>(static_cast<float>(v));
}
template <class T> T fromDouble(double v) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(v));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v);
  else
    return T(static_cast<float>(v));
}
double element(const Block &b, int64_t i) {
  double value = 0;
  withType(b.desc.data_type(), [&](auto zero) {
    using T = decltype(zero);
    T v;
    std::memcpy(&v, b.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    value = toDouble(v);
  });
  return value;
}
void setElement(Block *b, int64_t i, double value) {
  withType(b->desc.data_type(), [&](auto zero) {
    using T = decltype(zero);
    const T v = fromDouble<T>(value);
    std::memcpy(b->bytes.data() + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
  });
}

/// A generator that needs no state but a counter: the same numbers on every machine.
double uniform(uint64_t key) {
  key += 0x9e3779b97f4a7c15u;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((key ^ (key >> 31)) >> 11) * 0x1p-53;
}

/// One part of a block along an axis; the axis's elements [begin, begin + size).
Block cut(const Block &whole, int64_t axis, const AxisPart &part) {
  Block b;
  Shape shape = whole.desc.shape();
  const int64_t full = shape.At(axis);
  shape.Set(axis, part.size);
  b.desc = TensorDesc(shape, whole.desc.data_type());
  b.resize();
  const auto inner = static_cast<size_t>(shape.Count(axis + 1)) * GetSizeOfDataType(b.desc.data_type());
  const int64_t outer = shape.Count(0, axis);
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(b.bytes.data() + static_cast<size_t>(o * part.size) * inner,
                whole.bytes.data() + static_cast<size_t>(o * full + part.begin) * inner,
                static_cast<size_t>(part.size) * inner);
  return b;
}
/// The inverse: writes a part into its place.
void place(const Block &part, int64_t axis, const AxisPart &where, Block *whole) {
  const Shape &shape = whole->desc.shape();
  const auto inner = static_cast<size_t>(shape.Count(axis + 1)) * GetSizeOfDataType(whole->desc.data_type());
  for (int64_t o = 0; o < shape.Count(0, axis); ++o)
    std::memcpy(whole->bytes.data() + static_cast<size_t>(o * shape.At(axis) + where.begin) * inner,
                part.bytes.data() + static_cast<size_t>(o * where.size) * inner,
                static_cast<size_t>(where.size) * inner);
}

/// An addend: the parts sum to the whole.
Block addend(const Block &whole, int64_t parts, int64_t part, uint64_t seed) {
  Block b = whole;
  const bool floating = IsFloatingDataType(whole.desc.data_type());
  for (int64_t i = 0; i < whole.desc.shape().elem_cnt(); ++i) {
    auto share = [&](int64_t p) {
      const double u = uniform(seed + static_cast<uint64_t>(i * parts + p)) * 4 - 2;
      return floating ? u : std::floor(u);
    };
    double value = 0;
    if (part + 1 < parts) {
      value = share(part);
    } else {
      value = element(whole, i);
      for (int64_t p = 0; p + 1 < parts; ++p) value -= share(p);
    }
    setElement(&b, i, value);
  }
  return b;
}

Status runInstance(const Registry &registry, const OpInstance &op, std::vector<Block> *inputs,
                   std::vector<Block> *outputs) {
  outputs->clear();
  for (const TensorDesc &d : op.outputDescs()) {
    outputs->push_back({d, {}});
    outputs->back().resize();
  }
  bool empty = !op.outputDescs().empty();
  for (const TensorDesc &d : op.outputDescs()) empty &= d.shape().elem_cnt() == 0;
  if (empty) return Status::ok();
  std::vector<void *> data;
  for (Block &b : *inputs) data.push_back(b.bytes.data());
  for (Block &b : *outputs) data.push_back(b.bytes.data());
  auto kernel = op.selectKernel(registry, DeviceType::kCPU);
  if (!kernel) return kernel.status();
  auto tmp = op.tmpSize(**kernel);
  if (!tmp) return tmp.status();
  if (*tmp > (uint64_t{1} << 28))
    return Status(StatusCode::kUnsupported, "OPC0302", "its workspace is too large to try");
  std::vector<double> workspace(static_cast<size_t>(*tmp) / sizeof(double) + 16);
  DeviceCtx ctx(DeviceType::kCPU, 1, nullptr);
  auto task =
      KernelTask::create(op, **kernel, &ctx, data, std::vector<bool>(inputs->size(), false), workspace.data(), *tmp);
  if (!task) return task.status();
  return (*task)->run(&ctx);
}

std::string numberText(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", v);
  return buffer;
}

/// One case of an op with values, and what the whole gives.
class Trial {
public:
  /// False: the case cannot be run (no kernel for a type it needs).
  bool prepare(const Registry &registry, const OpDef &def, const Case &c, DataType type) {
    registry_ = &registry;
    case_ = &c;
    user_op::OpConf conf;
    conf.name = "op";
    conf.type = def.name;
    conf.attrs = c.attrs();
    for (const auto &in : c.inputs()) {
      user_op::ArgBinding *b = nullptr;
      for (auto &known : conf.inputs)
        if (known.name == in.arg) b = &known;
      if (!b) b = &conf.inputs.emplace_back(user_op::ArgBinding{in.arg, {}});
      b->tensors.push_back("in/" + in.arg + "_" + std::to_string(b->tensors.size()));
    }
    for (const auto &[arg, count] : c.outputs()) {
      user_op::ArgBinding b{arg, {}};
      for (int32_t i = 0; i < count; ++i) b.tensors.push_back("op/" + arg + "_" + std::to_string(i));
      conf.outputs.push_back(std::move(b));
    }
    if (!completeOpConf(def, &conf).isOk()) return false;
    op_ = std::make_unique<OpInstance>(def, conf);
    uint64_t seed = 1;
    std::map<std::string, int32_t> next;
    inputs_.assign(op_->inputDescs().size(), {});
    for (const auto &in : c.inputs()) {
      const std::string arg = def.findInput(in.arg)->name;
      const int at = op_->findInput(arg, next[arg]++);
      if (at < 0) return false;
      Block &b = inputs_[static_cast<size_t>(at)];
      const DataType t = in.type == kInvalidDataType ? type : in.type;
      b.desc = TensorDesc(in.shape, t);
      b.resize();
      seed += 1000003;
      for (int64_t i = 0; i < in.shape.elem_cnt(); ++i) {
        double v = in.lo + (in.hi - in.lo) * uniform(seed + static_cast<uint64_t>(i));
        if (t == kBool)
          v = v > (in.lo + in.hi) / 2;
        else if (!IsFloatingDataType(t))
          v = std::floor(v);
        setElement(&b, i, v);
      }
      op_->inputDescs()[static_cast<size_t>(at)] = b.desc;
    }
    if (!op_->infer().isOk()) return false;
    written_ = mutableInputs(*op_);
    std::vector<Block> copies = inputs_;
    if (!runInstance(registry, *op_, &copies, &whole_).isOk()) return false;
    wholeWritten_ = std::move(copies);
    return true;
  }

  const OpInstance &op() const { return *op_; }

  /// True when the parts give the whole; else `detail` says what differs.
  bool holds(const SbpSignature &signature, int64_t parts, std::string *detail) const {
    // Reassembled outputs, then inputs that the op writes.
    std::vector<Block> together = whole_, written = wholeWritten_;
    for (int64_t part = 0; part < parts; ++part) {
      OpInstance shard = *op_;
      std::vector<Block> inputs;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const auto &[arg, index] = op_->inputArgs()[i];
        const SbpParallel &s = *signature.find(arg, index);
        if (s.has_split_parallel())
          inputs.push_back(cut(inputs_[i], s.axis(), axisPart(inputs_[i].desc.shape().At(s.axis()), parts, part)));
        else if (s.has_partial_sum_parallel())
          inputs.push_back(addend(inputs_[i], parts, part, 77 * (i + 1)));
        else
          inputs.push_back(inputs_[i]);
        shard.inputDescs()[i] = inputs.back().desc;
      }
      // Outputs have the shapes that the signature says: attributes may hold sizes of the whole.
      for (size_t o = 0; o < shard.outputDescs().size(); ++o) {
        const auto &[arg, index] = op_->outputArgs()[o];
        const SbpParallel &s = *signature.find(arg, index);
        Shape shape = op_->outputDescs()[o].shape();
        if (s.has_split_parallel()) shape.Set(s.axis(), axisPart(shape.At(s.axis()), parts, part).size);
        shard.outputDescs()[o] = TensorDesc(shape, op_->outputDescs()[o].data_type());
      }
      std::vector<Block> outputs;
      if (Status s = runInstance(*registry_, shard, &inputs, &outputs); !s.isOk()) {
        *detail = where(signature, parts) + ": part " + std::to_string(part) + " fails: " + s.message();
        return false;
      }
      for (size_t o = 0; o < outputs.size(); ++o) {
        const auto &[arg, index] = op_->outputArgs()[o];
        const SbpParallel &s = *signature.find(arg, index);
        if (s.has_split_parallel()) {
          place(outputs[o], s.axis(), axisPart(whole_[o].desc.shape().At(s.axis()), parts, part), &together[o]);
        } else if (s.has_partial_sum_parallel()) {
          for (int64_t i = 0; i < outputs[o].desc.shape().elem_cnt(); ++i)
            setElement(&together[o], i, element(outputs[o], i) + (part ? element(together[o], i) : 0));
        } else if (!same(outputs[o], whole_[o], "output " + arg + " of part " + std::to_string(part), signature, parts,
                         detail)) {
          return false;
        }
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!written_[i]) continue;
        const auto &[arg, index] = op_->inputArgs()[i];
        const SbpParallel &s = *signature.find(arg, index);
        if (s.has_split_parallel())
          place(inputs[i], s.axis(), axisPart(inputs_[i].desc.shape().At(s.axis()), parts, part), &written[i]);
        else if (!same(inputs[i], wholeWritten_[i], "what part " + std::to_string(part) + " writes to " + arg,
                       signature, parts, detail))
          return false;
      }
    }
    for (size_t o = 0; o < together.size(); ++o)
      if (!same(together[o], whole_[o], "output " + op_->outputArgs()[o].first, signature, parts, detail)) return false;
    for (size_t i = 0; i < written.size(); ++i)
      if (written_[i] && !same(written[i], wholeWritten_[i], "what is written to " + op_->inputArgs()[i].first,
                               signature, parts, detail))
        return false;
    return true;
  }

private:
  /// "case big, {alpha: 2}, on 3 parts, x f64[4,5]".
  std::string where(const SbpSignature &signature, int64_t parts) const {
    std::string text = "case " + case_->name() + " on " + std::to_string(parts) + " parts, " +
                       signatureText(*op_, signature) + ", inputs";
    for (size_t i = 0; i < inputs_.size(); ++i)
      text += (i ? ", " : " ") + op_->inputArgs()[i].first + " " + inputs_[i].desc.toString();
    std::string attrs;
    for (const auto &[name, value] : case_->attrs())
      attrs += (attrs.empty() ? "" : ", ") + name + ": " + value.toString();
    return attrs.empty() ? text : text + ", attributes {" + attrs + "}";
  }

  bool same(const Block &found, const Block &expected, const std::string &what, const SbpSignature &signature,
            int64_t parts, std::string *detail) const {
    const DataType type = expected.desc.data_type();
    double rtol = 0, atol = 0;
    if (type == kDouble)
      rtol = 1e-9, atol = 1e-9;
    else if (type == kFloat)
      rtol = 1e-4, atol = 1e-4;
    else if (IsFloatingDataType(type))
      rtol = 4e-2, atol = 4e-2;
    for (int64_t i = 0; i < expected.desc.shape().elem_cnt(); ++i) {
      const double a = element(found, i), b = element(expected, i);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a == b || std::fabs(a - b) <= atol + rtol * std::fabs(b)) continue;
      std::string index;
      int64_t rest = i;
      for (int64_t axis = expected.desc.shape().NumAxes(); axis-- > 0;) {
        const int64_t size = expected.desc.shape().At(axis);
        index = std::to_string(rest % size) + (index.empty() ? "" : ", " + index);
        rest /= size;
      }
      *detail = where(signature, parts) + ": " + what + " differs first at [" + index + "]: " + numberText(a) +
                ", the whole gives " + numberText(b);
      return false;
    }
    return true;
  }

  const Registry *registry_ = nullptr;
  const Case *case_ = nullptr;
  std::unique_ptr<OpInstance> op_;
  std::vector<Block> inputs_, whole_, wholeWritten_;
  std::vector<bool> written_;
};

/// The widest type in which a case runs.
bool prepareTrial(const Registry &registry, const OpDef &op, const Case &c, Trial *trial) {
  for (DataType type : {kDouble, kFloat, kInt64, kInt32, kBool}) {
    if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), type) == c.types().end()) continue;
    if (trial->prepare(registry, op, c, type)) return true;
  }
  return false;
}

} // namespace

std::vector<SignatureCheck> checkSignatures(const Registry &registry, const OpDef &op,
                                            const SignatureCheckOptions &options) {
  std::vector<SignatureCheck> checks;
  auto find = [&](const std::string &signature) -> SignatureCheck & {
    for (SignatureCheck &c : checks)
      if (c.signature == signature) return c;
    checks.push_back({op.name, signature, SignatureVerdict::kNotApplicable, 0, ""});
    return checks.back();
  };
  if (!op.pure && !op.modifyInputs) {
    find("").detail = "its results are not a function of its inputs";
    return checks;
  }
  if (op.cases.empty()) {
    find("").detail = "it has no cases (.Cases)";
    return checks;
  }
  size_t ran = 0;
  for (const Case &c : op.cases) {
    Trial trial;
    if (!prepareTrial(registry, op, c, &trial)) continue;
    ++ran;
    for (int64_t parts : options.parts) {
      auto signatures = signaturesOf(trial.op(), parts);
      if (!signatures) {
        SignatureCheck &check = find("");
        check.verdict = SignatureVerdict::kUnsound;
        check.detail = signatures.status().message();
        return checks;
      }
      for (const SbpSignature &s : *signatures) {
        bool allBroadcast = true;
        for (const auto &state : s.states) allBroadcast &= state.second.has_broadcast_parallel();
        if (allBroadcast && !s.states.empty()) continue; // says nothing
        SignatureCheck &check = find(signatureText(trial.op(), s));
        if (check.verdict == SignatureVerdict::kUnsound) continue; // one counterexample is enough
        ++check.trials;
        std::string detail;
        const bool holds = trial.holds(s, parts, &detail);
        check.verdict = holds ? SignatureVerdict::kSound : SignatureVerdict::kUnsound;
        if (!holds) check.detail = detail;
      }
    }
  }
  if (checks.empty())
    find("").detail =
        ran ? "it declares no signature but all-broadcast that fits its cases" : "none of its cases runs here";
  return checks;
}

} // namespace opc
