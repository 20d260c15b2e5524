// Tests by execution that ops are pure.
// SPDX-License-Identifier: Apache-2.0
#include "PurityCheck.h"
#include "CaseTrial.h"
#include "MutableInputs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace opc {
namespace {

using user_op::Case;
using user_op::OpDef;

constexpr DataType kTypes[] = {kDouble, kFloat, kFloat16, kInt64, kInt32, kInt8, kBool};

std::string numberText(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", v);
  return buffer;
}

/// The first element whose bytes differ: "output y[3] is 1, it was 0".
std::string difference(const CaseTrial &trial, const std::vector<OpTensor> &now, const std::vector<OpTensor> &before) {
  for (size_t t = 0; t < before.size(); ++t) {
    const auto &args = trial.op.outputArgs();
    const std::string name = t < args.size() ? "output " + args[t].first : "an input that it writes";
    if (now.size() <= t || now[t].desc() != before[t].desc()) return name + " has another shape";
    const size_t size = GetSizeOfDataType(before[t].type());
    for (int64_t i = 0; i < before[t].elements(); ++i) {
      const size_t at = static_cast<size_t>(i) * size;
      if (std::memcmp(now[t].dptr() + at, before[t].dptr() + at, size) == 0) continue;
      return name + "[" + std::to_string(i) + "] is " + numberText(element(now[t], i)) + ", it was " +
             numberText(element(before[t], i));
    }
  }
  return "";
}

/// Runs of one case in one element type.
class Sample {
public:
  Sample(const Registry &registry, CaseTrial trial)
      : registry_(registry), trial_(std::move(trial)), written_(mutableInputs(trial_.op)) {}

  bool writes() const { return std::find(written_.begin(), written_.end(), true) != written_.end(); }
  const CaseTrial &trial() const { return trial_; }

  /// Outputs, then written inputs. The memory that the kernel saw stays, with other contents: a kernel that has kept a
  /// pointer to it reads those in its next run.
  Status run(unsigned char fill, int runs, std::vector<OpTensor> *results, std::string *wrote = nullptr) const {
    auto inputs = std::make_unique<std::vector<OpTensor>>(trial_.inputs);
    auto outputs = std::make_unique<std::vector<OpTensor>>();
    RunOpOptions options;
    options.fill = fill;
    options.runs = runs;
    OPC_RETURN_IF_ERROR(runOp(registry_, trial_.op, inputs.get(), outputs.get(), options));
    *results = *outputs;
    for (size_t i = 0; i < inputs->size(); ++i) {
      if (written_[i])
        results->push_back((*inputs)[i]);
      else if (wrote && (*inputs)[i] != trial_.inputs[i])
        *wrote = "its kernel writes to the input " + trial_.op.inputArgs()[i].first + ", which it does not declare";
    }
    for (auto *tensors : {inputs.get(), outputs.get()})
      for (OpTensor &t : *tensors)
        for (int64_t i = 0; i < t.elements(); ++i) setElement(&t, i, t.type() == kBool ? 0 : 3);
    const std::lock_guard<std::mutex> lock(lock_);
    kept_.push_back(std::move(inputs));
    kept_.push_back(std::move(outputs));
    return Status::ok();
  }

private:
  const Registry &registry_;
  CaseTrial trial_;
  std::vector<bool> written_;
  mutable std::mutex lock_;
  mutable std::vector<std::unique_ptr<std::vector<OpTensor>>> kept_;
};

struct Entry {
  const OpDef *op;
  const Case *sample;
  const char *type; // as it is shown
  std::unique_ptr<Sample> trial;
  std::vector<OpTensor> first; // what it gave; empty: it does not run
};

/// The cases of the ops that are held to be pure, each in the element types that change something.
std::vector<Entry> entriesOf(const Registry &registry, const std::vector<const OpDef *> &ops) {
  std::vector<Entry> entries;
  for (const OpDef *op : ops) {
    if (!op->pure) continue;
    for (const Case &c : op->cases) {
      const bool isVaried = varies(c);
      for (DataType type : kTypes) {
        if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), type) == c.types().end()) continue;
        std::optional<CaseTrial> trial = trialOf(registry, *op, c, type);
        if (!trial) continue;
        entries.push_back({op, &c, shownType(c, type), std::make_unique<Sample>(registry, *std::move(trial)), {}});
        if (!isVaried) break;
      }
    }
  }
  return entries;
}

class Check {
public:
  Check(const Registry &registry, const std::vector<const OpDef *> &ops) : entries_(entriesOf(registry, ops)) {}

  PurityReport run(const PurityOptions &options) {
    const auto begin = std::chrono::steady_clock::now();
    const auto begins = [&](const Entry &e) {
      if (options.begins) options.begins(e.op->name, caseName(*e.sample), e.type);
    };
    for (Entry &e : entries_) begins(e), nowAndAgain(e);
    const std::chrono::duration<double> wait(options.seconds);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait));
    for (size_t i = entries_.size(); i-- > 0;) {
      begins(entries_[i]);
      compare(entries_[i], "run later, after other operators",
              [&](auto *r) { return entries_[i].trial->run(0, 1, r); });
    }
    if (options.freshProcess) compareWith(options.freshProcess());
    std::set<const OpDef *> tried;
    for (const Entry &e : entries_)
      if (ran(e)) ++report_.samples, tried.insert(e.op);
    report_.ops = tried.size();
    return std::move(report_);
  }

private:
  static bool ran(const Entry &e) { return !e.first.empty(); }

  void add(const Entry &e, std::string when, std::string detail) {
    if (!guilty_.insert(e.op).second) return;
    report_.findings.push_back({e.op->name, caseName(*e.sample), e.type, std::move(when), std::move(detail)});
  }

  template <class Run> void compare(const Entry &e, const char *when, Run run) {
    if (!ran(e) || guilty_.count(e.op)) return;
    std::vector<OpTensor> now;
    if (Status s = run(&now); !s.isOk()) return add(e, when, "it fails: " + s.message());
    if (std::string d = difference(e.trial->trial(), now, e.first); !d.empty()) add(e, when, std::move(d));
  }

  void nowAndAgain(Entry &e) {
    std::string wrote;
    if (!e.trial->run(0, 1, &e.first, &wrote).isOk()) {
      e.first.clear(); // no kernel of this type, or values that the op refuses: conformance tests' affair
      return;
    }
    if (!wrote.empty()) add(e, "run once", wrote);
    const Sample &s = *e.trial;
    compare(e, "run again in another instance", [&](auto *r) { return s.run(0, 1, r); });
    // NaN or -1, and a large number: what is added to it, or compared with it, shows.
    for (const unsigned char held : {0xFF, 0x7E})
      compare(e, "run over memory that held something else", [&](auto *r) { return s.run(held, 1, r); });
    if (!s.writes()) compare(e, "run twice in one instance", [&](auto *r) { return s.run(0, 2, r); });
    inTwoThreads(e);
  }

  void inTwoThreads(const Entry &e) {
    if (guilty_.count(e.op)) return;
    std::vector<OpTensor> results[2];
    Status statuses[2];
    auto run = [&](int t) { statuses[t] = e.trial->run(0, 1, &results[t]); };
    std::thread first(run, 0), second(run, 1);
    first.join();
    second.join();
    for (int t = 0; t < 2; ++t)
      compare(e, "run in two threads at once", [&](auto *r) {
        *r = std::move(results[t]);
        return statuses[t];
      });
  }

  void compareWith(const Result<std::string> &bytes) {
    size_t at = 0;
    auto take = [&](void *to, size_t size) {
      if (!bytes || bytes->size() - at < size) return false;
      if (to) std::memcpy(to, bytes->data() + at, size);
      at += size;
      return true;
    };
    for (const Entry &e : entries_) {
      std::vector<OpTensor> now = e.first;
      uint64_t size = 0, wanted = 0;
      for (const OpTensor &t : now) wanted += t.bytes();
      bool there = take(&size, sizeof size) && size == wanted;
      for (OpTensor &t : now) there = there && take(t.data(), t.bytes());
      if (!there && size != 0) take(nullptr, size);
      compare(e, "run in a fresh process, in another order", [&](std::vector<OpTensor> *results) {
        *results = std::move(now);
        return there   ? Status::ok()
               : bytes ? Status(StatusCode::kExecution, "OPC0601", "there it gives nothing of this size")
                       : bytes.status();
      });
    }
  }

  std::vector<Entry> entries_;
  std::set<const OpDef *> guilty_; // one finding an op is enough
  PurityReport report_;
};

} // namespace

std::string resultsOfCases(const Registry &registry, const std::vector<const OpDef *> &ops,
                           const BeginningCase &begins) {
  std::vector<Entry> entries = entriesOf(registry, ops);
  for (auto e = entries.rbegin(); e != entries.rend(); ++e) {
    begins(e->op->name, caseName(*e->sample), e->type);
    if (!e->trial->run(0, 1, &e->first).isOk()) e->first.clear();
  }
  std::string bytes;
  for (const Entry &e : entries) {
    uint64_t size = 0;
    for (const OpTensor &t : e.first) size += t.bytes();
    bytes.append(reinterpret_cast<const char *>(&size), sizeof size);
    for (const OpTensor &t : e.first) bytes.append(t.dptr(), t.bytes());
  }
  return bytes;
}

PurityReport checkPurity(const Registry &registry, const std::vector<const OpDef *> &ops,
                         const PurityOptions &options) {
  return Check(registry, ops).run(options);
}

} // namespace opc
