// The signatures that the shape, reduce, index and type ops declare by hand, proven or refuted: inputs are cut as
// declared, the pieces run, the outputs put together as declared and compared with the whole.
#include "HostContexts.h"
#include "ShapeOpsRunner.h"

#include <cmath>
#include <set>

using namespace opc;
using namespace opc::shapetest;

namespace {

constexpr int64_t kParts = 2;

/// What GetSbp sees of an op whose inputs have been described.
class TestSbpContext final : public HostContext<user_op::SbpContext> {
public:
  explicit TestSbpContext(const OpInstance &op) : HostContext(op) {}
  DeviceType device_type() const override { return DeviceType::kCPU; }
  int64_t parallel_num() const override { return kParts; }
  std::vector<SbpSignature> found;

protected:
  const user_op::TensorDesc *findInputDesc(const std::string &arg, int32_t index) const override {
    const int i = op_->findInput(arg, index);
    return i < 0 ? nullptr : &op_->inputDescs()[static_cast<size_t>(i)];
  }
  std::vector<SbpSignature> *signatures() override { return &found; }
};

/// Part `part` of axis `axis`; the first parts get the remainder.
Value cut(const Value &v, int64_t axis, int64_t part) {
  const Shape &s = v.shape();
  const int64_t n = s.At(axis), first = (n + 1) / 2, from = part == 0 ? 0 : first,
                count = part == 0 ? first : n - first;
  const int64_t size = static_cast<int64_t>(GetSizeOfDataType(v.desc.data_type())), inner = s.Count(axis + 1) * size;
  Shape shape = s;
  shape.Set(axis, count);
  Value out{user_op::TensorDesc(shape, v.desc.data_type()), {}};
  for (int64_t o = 0; o < s.Count(0, axis); ++o) {
    const char *row = v.bytes.data() + (o * n + from) * inner;
    out.bytes.insert(out.bytes.end(), row, row + count * inner);
  }
  return out;
}
Value joined(const Value &a, const Value &b, int64_t axis) {
  const int64_t size = static_cast<int64_t>(GetSizeOfDataType(a.desc.data_type()));
  Shape shape = a.shape();
  shape.Set(axis, a.shape().At(axis) + b.shape().At(axis));
  Value out{user_op::TensorDesc(shape, a.desc.data_type()), {}};
  for (int64_t o = 0; o < a.shape().Count(0, axis); ++o)
    for (const Value *v : {&a, &b}) {
      const int64_t row = v->shape().Count(axis) * size;
      out.bytes.insert(out.bytes.end(), v->bytes.data() + o * row, v->bytes.data() + (o + 1) * row);
    }
  return out;
}
/// f32 or f64 elements as f32.
std::vector<float> floats(const Value &v) {
  if (v.desc.data_type() == kFloat) return v.as<float>();
  const auto wide = v.as<double>();
  return {wide.begin(), wide.end()};
}
Value addend(const Value &v, int64_t part) {
  std::vector<float> x = v.as<float>();
  const auto share = noise(static_cast<int64_t>(x.size()), 99);
  for (size_t i = 0; i < x.size(); ++i) x[i] = part == 0 ? share[i] : x[i] - share[i];
  return value<float>(v.shape(), x);
}
bool close(const Value &a, const Value &b) {
  if (a.desc != b.desc) return false;
  if (a.desc.data_type() != kFloat && a.desc.data_type() != kDouble) return a.bytes == b.bytes;
  const auto x = floats(a), y = floats(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= 1e-4f * (1 + std::abs(y[i]))) && !(std::isnan(x[i]) && std::isnan(y[i])))
      return false;
  return true;
}

/// Attributes of these hold sizes of the whole, which the cut op needs to have changed; the planner does that.
const std::set<std::string> kWholeSizes = {"reshape", "expand", "constant", "slice_grad", "unsorted_batch_segment_sum"};

/// The families that this file tests.
bool isOurs(const user_op::OpDef &op) {
  for (const char *folder : {"/ops/shape/", "/ops/reduce/", "/ops/index/", "/ops/source/", "/ops/type/"})
    if (op.origin.file.find(folder) != std::string::npos) return true;
  return false;
}

} // namespace

TEST_CASE("hand-written signatures hold", "[sbp]") {
  size_t checked = 0;
  for (const user_op::OpDef *op : registry().ops()) {
    if (!isOurs(*op) || !op->getSbp || kWholeSizes.count(op->name) || !op->pure) continue;
    for (const user_op::Case &c : op->cases) {
      if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), kFloat) == c.types().end()) continue;
      Call call{op->name, {}, c.attrs(), {}};
      uint32_t seed = 1;
      bool possible = true;
      for (const user_op::CaseInput &in : c.inputs()) {
        const auto u = noise(in.shape.elem_cnt(), seed += 7);
        auto between = [&](float x) { return in.lo + (in.hi - in.lo) * (static_cast<double>(x) + 1) / 2; };
        const DataType type = in.type == kInvalidDataType ? kFloat : in.type;
        if (type == kInt64) {
          std::vector<int64_t> v;
          for (float x : u) v.push_back(static_cast<int64_t>(between(x)));
          call.inputs.push_back({in.arg, value<int64_t>(in.shape, v)});
        } else if (type == kInt32) {
          std::vector<int32_t> v;
          for (float x : u) v.push_back(static_cast<int32_t>(between(x)));
          call.inputs.push_back({in.arg, value<int32_t>(in.shape, v)});
        } else if (type == kBool) {
          std::vector<bool> v;
          for (float x : u) v.push_back(x > 0);
          call.inputs.push_back({in.arg, value<bool>(in.shape, v)});
        } else if (type == kFloat) {
          std::vector<float> v;
          for (float x : u) v.push_back(static_cast<float>(between(x)));
          call.inputs.push_back({in.arg, value<float>(in.shape, v)});
        } else {
          possible = false;
        }
      }
      for (const auto &[arg, count] : c.outputs()) call.outputs.push_back({arg, count});
      std::vector<Value> whole;
      if (!possible || !runOnce(call, 1, &whole).isOk()) continue;

      // The instance, for the signatures and the order of its arguments.
      user_op::OpConf conf;
      conf.type = conf.name = op->name;
      std::map<std::string, int32_t> counts;
      for (const auto &[arg, v] : call.inputs) ++counts[arg];
      for (const auto &[arg, n] : counts) {
        conf.inputs.push_back({arg, {}});
        for (int32_t i = 0; i < n; ++i) conf.inputs.back().tensors.push_back(arg + std::to_string(i));
      }
      for (const auto &[arg, n] : c.outputs()) {
        conf.outputs.push_back({arg, {}});
        for (int32_t i = 0; i < n; ++i) conf.outputs.back().tensors.push_back("t/" + arg + std::to_string(i));
      }
      conf.attrs = c.attrs();
      REQUIRE(completeOpConf(*op, &conf).isOk());
      OpInstance instance(*op, conf);
      std::map<std::string, int32_t> seen;
      std::vector<std::pair<std::string, int32_t>> places;
      for (const auto &[arg, v] : call.inputs) {
        places.push_back({op->findInput(arg)->name, seen[arg]++});
        const int at = instance.findInput(places.back().first, places.back().second);
        REQUIRE(at >= 0);
        instance.inputDescs()[static_cast<size_t>(at)] = v.desc;
      }
      TestSbpContext context(instance);
      const Maybe<void> listed = op->getSbp(&context);
      INFO(op->name << " " << c.name() << ": " << listed.status().toString());
      REQUIRE(listed.IsOk());
      for (const SbpSignature &signature : context.found) {
        std::string text;
        for (const auto &[place, state] : signature.states)
          text += place.first + "_" + std::to_string(place.second) + ":" + state.toString() + " ";
        INFO(text);
        bool fits = true;
        std::vector<Value> pieces[kParts];
        for (int64_t part = 0; part < kParts && fits; ++part) {
          Call shard = call;
          for (size_t i = 0; i < places.size(); ++i) {
            const SbpParallel *state = signature.find(places[i].first, places[i].second);
            if (!state || state->has_broadcast_parallel()) continue;
            const Value v = call.inputs[i].second;
            if (state->has_split_parallel() && v.shape().At(state->axis()) < kParts) {
              fits = false;
              break;
            }
            REQUIRE((state->has_split_parallel() || v.desc.data_type() == kFloat));
            shard.inputs[i].second = state->has_split_parallel() ? cut(v, state->axis(), part) : addend(v, part);
          }
          if (!fits) break;
          const Status ran = runOnce(shard, 1, &pieces[part]);
          INFO("part " << part << ": " << ran.toString());
          REQUIRE(ran.isOk());
        }
        if (!fits) continue;
        for (size_t o = 0; o < whole.size(); ++o) {
          const auto &[arg, index] = instance.outputArgs()[o];
          const SbpParallel *state = signature.find(arg, index);
          Value together = pieces[0][o];
          if (state && state->has_split_parallel()) {
            together = joined(pieces[0][o], pieces[1][o], state->axis());
          } else if (state && state->has_partial_sum_parallel()) {
            if (together.desc.data_type() == kInt64) {
              auto a = pieces[0][o].as<int64_t>();
              const auto b = pieces[1][o].as<int64_t>();
              for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
              CHECK(a == whole[o].as<int64_t>());
              continue;
            }
            auto sum = floats(pieces[0][o]), other = floats(pieces[1][o]);
            REQUIRE(sum.size() == other.size());
            for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
            together = together.desc.data_type() == kFloat
                           ? value<float>(together.shape(), sum)
                           : value<double>(together.shape(), std::vector<double>(sum.begin(), sum.end()));
          } else {
            CHECK(close(pieces[0][o], pieces[1][o]));
          }
          INFO("output " << arg << "_" << index);
          CHECK(close(together, whole[o]));
        }
        ++checked;
      }
    }
  }
  CHECK(checked > 50);
}
