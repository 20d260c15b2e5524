// The canonical text of a graph: one writer, so that equal graphs are equal bytes.
// SPDX-License-Identifier: Apache-2.0
#include "GraphEmitter.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/stubs/strutil.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

namespace opc {
namespace {

namespace pb = google::protobuf;

// Messages that fit on a line of this many characters, and nest no named op, are written on one.
constexpr size_t kLineWidth = 100;

template <class T> std::string number(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  }
  char buffer[64];
  auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return std::string(buffer, r.ptr);
}

class Writer {
public:
  std::string write(const pb::Message &m) {
    message(m, 0);
    return std::move(out_);
  }

private:
  /// Fields of a message as (name, printed value or submessage), in number order; map entries sorted by key.
  void message(const pb::Message &m, int depth) {
    const pb::Reflection *r = m.GetReflection();
    std::vector<const pb::FieldDescriptor *> fields;
    r->ListFields(m, &fields); // in number order
    for (const auto *f : fields) {
      if (!f->is_repeated()) {
        fieldText(m, f, -1, depth);
        continue;
      }
      std::vector<int> order(static_cast<size_t>(r->FieldSize(m, f)));
      std::iota(order.begin(), order.end(), 0);
      if (const auto *key = mapKey(f))
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
          const auto &ma = r->GetRepeatedMessage(m, f, a), &mb = r->GetRepeatedMessage(m, f, b);
          return ma.GetReflection()->GetString(ma, key) < mb.GetReflection()->GetString(mb, key);
        });
      for (int i : order) fieldText(m, f, i, depth);
    }
  }

  /// The entries that stand for OneFlow's map fields are messages named ...Entry with a string key.
  static const pb::FieldDescriptor *mapKey(const pb::FieldDescriptor *f) {
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) return nullptr;
    const std::string &name = f->message_type()->name();
    if (name.size() < 5 || name.compare(name.size() - 5, 5, "Entry") != 0) return nullptr;
    const auto *key = f->message_type()->FindFieldByName("key");
    return key && key->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING ? key : nullptr;
  }

  void fieldText(const pb::Message &m, const pb::FieldDescriptor *f, int index, int depth) {
    indent(depth);
    out_ += f->name();
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      out_ += ": " + scalar(m, f, index) + "\n";
      return;
    }
    const pb::Reflection *r = m.GetReflection();
    const pb::Message &sub = index < 0 ? r->GetMessage(m, f) : r->GetRepeatedMessage(m, f, index);
    // An op always opens a block: diffs of graphs are diffs of lines within ops.
    if (f->message_type()->name() != "OperatorConf" && f->message_type()->name() != "DLNetConf") {
      const size_t start = out_.size();
      const std::string line = oneLine(sub);
      if (line.size() + f->name().size() + static_cast<size_t>(depth) * 2 <= kLineWidth) {
        out_ += line + "\n";
        return;
      }
      out_.resize(start);
    }
    out_ += " {\n";
    message(sub, depth + 1);
    indent(depth);
    out_ += "}\n";
  }

  static std::string oneLine(const pb::Message &m) {
    Writer w;
    std::string text = w.write(m), line = " {";
    size_t begin = 0;
    while (begin < text.size()) {
      size_t end = text.find('\n', begin);
      size_t first = text.find_first_not_of(' ', begin);
      line += " " + text.substr(first, end - first);
      begin = end + 1;
      if (line.size() > kLineWidth) break; // too long already
    }
    return line + (text.empty() ? "}" : " }");
  }

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  static std::string scalar(const pb::Message &m, const pb::FieldDescriptor *f, int i) {
    const pb::Reflection *r = m.GetReflection();
    using F = pb::FieldDescriptor;
    switch (f->cpp_type()) {
    case F::CPPTYPE_INT32: return number(i < 0 ? r->GetInt32(m, f) : r->GetRepeatedInt32(m, f, i));
    case F::CPPTYPE_INT64: return number(i < 0 ? r->GetInt64(m, f) : r->GetRepeatedInt64(m, f, i));
    case F::CPPTYPE_UINT32: return number(i < 0 ? r->GetUInt32(m, f) : r->GetRepeatedUInt32(m, f, i));
    case F::CPPTYPE_UINT64: return number(i < 0 ? r->GetUInt64(m, f) : r->GetRepeatedUInt64(m, f, i));
    case F::CPPTYPE_FLOAT: return number(i < 0 ? r->GetFloat(m, f) : r->GetRepeatedFloat(m, f, i));
    case F::CPPTYPE_DOUBLE: return number(i < 0 ? r->GetDouble(m, f) : r->GetRepeatedDouble(m, f, i));
    case F::CPPTYPE_BOOL: return (i < 0 ? r->GetBool(m, f) : r->GetRepeatedBool(m, f, i)) ? "true" : "false";
    case F::CPPTYPE_ENUM: return (i < 0 ? r->GetEnum(m, f) : r->GetRepeatedEnum(m, f, i))->name();
    case F::CPPTYPE_STRING: {
      const std::string text = i < 0 ? r->GetString(m, f) : r->GetRepeatedString(m, f, i);
      return "\"" + (f->type() == F::TYPE_BYTES ? pb::CEscape(text) : pb::strings::Utf8SafeCEscape(text)) + "\"";
    }
    case F::CPPTYPE_MESSAGE: break;
    }
    return "";
  }

  std::string out_;
};

} // namespace

std::string canonicalText(const graph::Job &job) {
  const bool bare = !job.has_placement() && !job.has_job_conf() && !job.has_job_parallel_view_conf();
  return bare ? Writer().write(job.net()) : Writer().write(job);
}

} // namespace opc
