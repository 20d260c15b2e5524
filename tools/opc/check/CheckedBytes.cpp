// A graph that was checked, as bytes: numbers of eight bytes, and texts behind their length.
// SPDX-License-Identifier: Apache-2.0
#include "CheckedBytes.h"

#include "LockFile.h"

#include <cstring>

namespace opc::cli {

namespace {

const std::string kEnd = "opc: checked as a whole"; // without it the writer was interrupted

class Writer {
public:
  void put(int64_t number) { bytes_.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void put(std::string_view text) {
    put(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  void put(const std::vector<std::string> &texts) {
    put(static_cast<int64_t>(texts.size()));
    for (const std::string &text : texts) put(text);
  }
  void put(const SourceRange &range) {
    put(range.file);
    for (const uint32_t n : {range.line, range.column, range.endLine, range.endColumn}) put(static_cast<int64_t>(n));
  }
  std::string take() { return std::move(bytes_); }

private:
  std::string bytes_;
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool isGood() const { return isGood_; }
  int64_t number() {
    int64_t n = 0;
    const std::string_view bytes = piece(sizeof n);
    if (isGood_) std::memcpy(&n, bytes.data(), sizeof n);
    return n;
  }
  std::string_view view() { return piece(static_cast<size_t>(number())); }
  std::string text() { return std::string(view()); }
  /// Of things that have a byte at least; 0 where the bytes are damaged.
  size_t count() {
    const auto n = static_cast<size_t>(number());
    isGood_ = isGood_ && n <= left_.size();
    return isGood_ ? n : 0;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> all(count());
    for (std::string &text : all) text = this->text();
    return all;
  }
  SourceRange range() {
    SourceRange r;
    r.file = text();
    for (uint32_t *n : {&r.line, &r.column, &r.endLine, &r.endColumn}) *n = static_cast<uint32_t>(number());
    return r;
  }

private:
  std::string_view piece(size_t size) {
    isGood_ = isGood_ && size <= left_.size();
    if (!isGood_) return {};
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }

  std::string_view left_;
  bool isGood_ = true;
};

void putReport(const GraphReport &report, Writer *to) {
  to->put(report.graph);
  to->put(static_cast<int64_t>(report.exitCode));
  to->put(report.rules);
  to->put(report.text);
  to->put(static_cast<int64_t>(report.findings.size()));
  for (const GraphFinding &f : report.findings) {
    for (const int n : {static_cast<int>(f.subject), static_cast<int>(f.change), static_cast<int>(f.severity)})
      to->put(static_cast<int64_t>(n));
    for (const std::string *text : {&f.rule, &f.graph, &f.op, &f.tensor, &f.message, &f.expected, &f.found, &f.help})
      to->put(*text);
    to->put(f.range);
  }
}

GraphReport reportOf(Reader *from) {
  GraphReport report;
  report.graph = from->text();
  report.exitCode = static_cast<int>(from->number());
  report.rules = from->texts();
  report.text = from->text();
  report.findings.resize(from->count());
  for (GraphFinding &f : report.findings) {
    f.subject = static_cast<ChangeSubject>(from->number());
    f.change = static_cast<ChangeKind>(from->number());
    f.severity = static_cast<Severity>(from->number());
    for (std::string *text : {&f.rule, &f.graph, &f.op, &f.tensor, &f.message, &f.expected, &f.found, &f.help})
      *text = from->text();
    f.range = from->range();
  }
  return report;
}

/// A lock's text, and what no lock has; an empty text for none.
void putLock(const Lock *lock, Writer *to) {
  to->put(lock ? lockText(*lock) : "");
  if (!lock) return;
  to->put(static_cast<int64_t>(lock->numerics.outputs.size()));
  for (const OutputValues &output : lock->numerics.outputs) to->put(output.bits);
}

/// False where the bytes are damaged.
bool takeLock(Reader *from, std::optional<Lock> *to) {
  const std::string_view text = from->view();
  if (!from->isGood() || text.empty()) return from->isGood();
  Result<Lock> lock = readLock(text, "lock");
  const std::vector<std::string> bits = from->texts();
  if (!lock || bits.size() != lock->numerics.outputs.size()) return false;
  for (size_t i = 0; i < bits.size(); ++i) lock->numerics.outputs[i].bits = bits[i];
  lock->texts.erase(LockSection::kNumerics); // an update that keeps the whole outputs writes their digest into it
  *to = *std::move(lock);
  return true;
}

bool takeValues(Reader *from, std::vector<NamedOutput> *to) {
  for (size_t left = from->count(); left > 0; --left) {
    const std::string name = from->text();
    const auto type = static_cast<DataType>(from->number());
    DimVector dims;
    for (size_t axes = from->count(); axes > 0; --axes) dims.push_back(from->number());
    const std::string_view bytes = from->view();
    if (!from->isGood()) return false;
    Result<HostTensor> tensor = HostTensor::createUninitialized(type, Shape(std::move(dims)));
    if (!tensor || tensor->bytes() != bytes.size()) return false;
    if (!bytes.empty()) std::memcpy(tensor->data(), bytes.data(), bytes.size());
    to->push_back({name, *std::move(tensor)});
  }
  return from->isGood();
}

} // namespace

std::string bytesOf(const CheckedGraph &checked, bool isAgainst) {
  Writer to;
  putReport(checked.report, &to);
  to.put(checked.plan);
  to.put(int64_t{checked.isModel});
  to.put(int64_t{checked.isWhole});
  to.put(int64_t{checked.inputs.has_value()});
  to.put(checked.inputs.value_or(std::vector<std::string>()));
  putLock(checked.isWhole ? &checked.now : nullptr, &to);
  putLock(checked.locked && !isAgainst ? &*checked.locked : nullptr, &to);
  to.put(static_cast<int64_t>(checked.values.size()));
  for (const NamedOutput &value : checked.values) {
    to.put(value.name);
    to.put(static_cast<int64_t>(value.tensor.dtype()));
    to.put(value.tensor.shape().NumAxes());
    for (const int64_t dim : value.tensor.shape().dim_vec()) to.put(dim);
    to.put(std::string_view(static_cast<const char *>(value.tensor.data()), value.tensor.bytes()));
  }
  to.put(kEnd);
  return to.take();
}

std::optional<CheckedGraph> checkedOf(std::string_view bytes) {
  Reader from(bytes);
  CheckedGraph checked;
  checked.report = reportOf(&from);
  checked.plan = from.text();
  checked.isModel = from.number() != 0;
  checked.isWhole = from.number() != 0;
  const bool hasInputs = from.number() != 0;
  const std::vector<std::string> inputs = from.texts();
  if (hasInputs) checked.inputs = inputs;
  std::optional<Lock> now;
  if (!takeLock(&from, &now) || !takeLock(&from, &checked.locked) || !takeValues(&from, &checked.values)) return {};
  if (from.view() != kEnd || now.has_value() != checked.isWhole) return {};
  if (now) checked.now = *std::move(now);
  return checked;
}

} // namespace opc::cli
