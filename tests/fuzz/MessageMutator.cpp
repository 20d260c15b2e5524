// Random changes of a protobuf message through its reflection: mutations that the parser takes and the checks must
// judge.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <random>

namespace opc::fuzz {

namespace pb = google::protobuf;

namespace {

using Random = std::mt19937_64;

uint64_t below(Random &random, uint64_t n) { return n ? random() % n : 0; }

/// Small numbers, the ends of each type, and what is near a limit somewhere.
int64_t interestingInteger(Random &random, int64_t old) {
  static const int64_t table[] = {0,
                                  1,
                                  -1,
                                  2,
                                  3,
                                  4,
                                  7,
                                  8,
                                  16,
                                  20,
                                  21,
                                  63,
                                  64,
                                  100,
                                  127,
                                  128,
                                  255,
                                  256,
                                  1000,
                                  4096,
                                  65535,
                                  65536,
                                  1 << 20,
                                  INT32_MAX,
                                  1LL << 31,
                                  INT32_MIN,
                                  UINT32_MAX,
                                  1LL << 32,
                                  1LL << 40,
                                  1LL << 61,
                                  1LL << 62,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX - 1,
                                  -2,
                                  -64,
                                  INT64_MAX / 4};
  switch (below(random, 5)) {
  case 0: return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
  case 1: return static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
  case 2: return static_cast<int64_t>(below(random, 8));
  default: return table[below(random, std::size(table))];
  }
}

double interestingReal(Random &random) {
  static const double table[] = {0, -0.0, 1, -1, 0.5, 1e-30, 1e30, -1e300, 1e300, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
  return table[below(random, std::size(table))];
}

std::string mutatedText(Random &random, std::string s, const std::vector<std::string> &others) {
  switch (below(random, 6)) {
  case 0: return "";
  case 1: return s.empty() ? "x" : s.substr(0, below(random, s.size()));
  case 2:
    if (!s.empty()) s[below(random, s.size())] = static_cast<char>(random());
    return s;
  default: return others.empty() ? s : others[below(random, others.size())];
  }
}

/// A message of the tree, or a field of one.
struct Place {
  pb::Message *message;
  const pb::FieldDescriptor *field;
};

void collect(pb::Message *m, int depth, std::vector<Place> *places, std::vector<std::string> *texts) {
  const pb::Reflection *r = m->GetReflection();
  const pb::Descriptor *d = m->GetDescriptor();
  for (int i = 0; i < d->field_count(); ++i) {
    const pb::FieldDescriptor *f = d->field(i);
    places->push_back({m, f});
    if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING) {
      if (f->is_repeated())
        for (int k = 0; k < r->FieldSize(*m, f); ++k) texts->push_back(r->GetRepeatedString(*m, f, k));
      else if (r->HasField(*m, f))
        texts->push_back(r->GetString(*m, f));
    }
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE || depth > 12) continue;
    if (f->is_repeated())
      for (int k = 0; k < r->FieldSize(*m, f); ++k)
        collect(r->MutableRepeatedMessage(m, f, k), depth + 1, places, texts);
    else if (r->HasField(*m, f))
      collect(r->MutableMessage(m, f), depth + 1, places, texts);
  }
}

/// Sets element `k` of a repeated field, the field itself with k < 0; `add` appends an element.
void setScalar(Random &random, const Place &p, int k, bool add, const std::vector<std::string> &texts) {
  const pb::Reflection *r = p.message->GetReflection();
  pb::Message *m = p.message;
  const pb::FieldDescriptor *f = p.field;
#define OPC_SET(Kind, value)                                                                                           \
  do {                                                                                                                 \
    if (add)                                                                                                           \
      r->Add##Kind(m, f, value);                                                                                       \
    else if (k >= 0)                                                                                                   \
      r->SetRepeated##Kind(m, f, k, value);                                                                            \
    else                                                                                                               \
      r->Set##Kind(m, f, value);                                                                                       \
  } while (false)
#define OPC_OLD(Kind) (add ? 0 : k >= 0 ? r->GetRepeated##Kind(*m, f, k) : r->Get##Kind(*m, f))
  switch (f->cpp_type()) {
  case pb::FieldDescriptor::CPPTYPE_INT32:
    OPC_SET(Int32, static_cast<int32_t>(interestingInteger(random, OPC_OLD(Int32))));
    break;
  case pb::FieldDescriptor::CPPTYPE_INT64: OPC_SET(Int64, interestingInteger(random, OPC_OLD(Int64))); break;
  case pb::FieldDescriptor::CPPTYPE_UINT32:
    OPC_SET(UInt32, static_cast<uint32_t>(interestingInteger(random, OPC_OLD(UInt32))));
    break;
  case pb::FieldDescriptor::CPPTYPE_UINT64:
    OPC_SET(UInt64, static_cast<uint64_t>(interestingInteger(random, static_cast<int64_t>(OPC_OLD(UInt64)))));
    break;
  case pb::FieldDescriptor::CPPTYPE_DOUBLE: OPC_SET(Double, interestingReal(random)); break;
  case pb::FieldDescriptor::CPPTYPE_FLOAT: OPC_SET(Float, static_cast<float>(interestingReal(random))); break;
  case pb::FieldDescriptor::CPPTYPE_BOOL: OPC_SET(Bool, below(random, 2) != 0); break;
  case pb::FieldDescriptor::CPPTYPE_ENUM:
    OPC_SET(EnumValue,
            f->enum_type()
                ->value(static_cast<int>(below(random, static_cast<uint64_t>(f->enum_type()->value_count()))))
                ->number());
    break;
  case pb::FieldDescriptor::CPPTYPE_STRING: {
    const std::string old = add ? "" : k >= 0 ? r->GetRepeatedString(*m, f, k) : r->GetString(*m, f);
    OPC_SET(String, mutatedText(random, old, texts));
    break;
  }
  case pb::FieldDescriptor::CPPTYPE_MESSAGE: break;
  }
#undef OPC_SET
#undef OPC_OLD
}

void change(Random &random, pb::Message *root) {
  std::vector<Place> places;
  std::vector<std::string> texts;
  collect(root, 0, &places, &texts);
  // A field that is there, most of the time: an op has dozens of fields that nobody sets.
  Place p = places[below(random, places.size())];
  for (int attempt = 0; attempt < 12; ++attempt) {
    const pb::Reflection *r = p.message->GetReflection();
    if (p.field->is_repeated() ? r->FieldSize(*p.message, p.field) > 0 : r->HasField(*p.message, p.field)) break;
    if (below(random, 8) == 0) break;
    p = places[below(random, places.size())];
  }
  const pb::Reflection *r = p.message->GetReflection();
  const bool isMessage = p.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
  if (!p.field->is_repeated()) {
    if (isMessage) {
      if (r->HasField(*p.message, p.field) && below(random, 3) == 0)
        r->ClearField(p.message, p.field);
      else
        (void)r->MutableMessage(p.message, p.field);
    } else if (below(random, 8) == 0) {
      r->ClearField(p.message, p.field);
    } else {
      setScalar(random, p, -1, false, texts);
    }
    return;
  }
  const int size = r->FieldSize(*p.message, p.field);
  const int at = static_cast<int>(below(random, static_cast<uint64_t>(size)));
  switch (below(random, isMessage ? 4 : 6)) {
  case 0:
    if (size == 0) return;
    r->SwapElements(p.message, p.field, at, size - 1);
    r->RemoveLast(p.message, p.field);
    return;
  case 1:
    if (size > 1) r->SwapElements(p.message, p.field, at, static_cast<int>(below(random, static_cast<uint64_t>(size))));
    return;
  case 2: // one more, a copy where there is one
    if (isMessage) {
      pb::Message *added = r->AddMessage(p.message, p.field);
      if (size > 0) added->CopyFrom(r->GetRepeatedMessage(*p.message, p.field, at));
    } else {
      setScalar(random, p, -1, true, texts);
    }
    return;
  default:
    if (size == 0) return;
    if (!isMessage) return setScalar(random, p, at, false, texts);
    // The element becomes its neighbour's copy.
    if (size > 1) {
      const int from = static_cast<int>(below(random, static_cast<uint64_t>(size)));
      if (from != at)
        r->MutableRepeatedMessage(p.message, p.field, at)->CopyFrom(r->GetRepeatedMessage(*p.message, p.field, from));
    }
  }
}

} // namespace

void mutateMessage(pb::Message *message, uint64_t seed) {
  Random random(seed);
  for (uint64_t n = 1 + below(random, 4); n > 0; --n) change(random, message);
}

} // namespace opc::fuzz
