// The names of a graph file.
// SPDX-License-Identifier: Apache-2.0
#include "GraphNames.h"
#include "PrintableText.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <vector>

namespace opc {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;

void spellStrings(pb::Message *m, const Field *f) {
  const pb::Reflection *r = m->GetReflection();
  std::string scratch;
  if (f->is_repeated()) {
    for (int i = 0; i < r->FieldSize(*m, f); ++i) {
      const std::string &name = r->GetRepeatedStringReference(*m, f, i, &scratch);
      if (std::string spelled = printableName(name); spelled != name) r->SetRepeatedString(m, f, i, std::move(spelled));
    }
    return;
  }
  const std::string &name = r->GetStringReference(*m, f, &scratch);
  if (std::string spelled = printableName(name); spelled != name) r->SetString(m, f, std::move(spelled));
}

void spellMessage(pb::Message *m) {
  if (m->GetDescriptor() == graph::AttrValue::descriptor()) return;
  const pb::Reflection *r = m->GetReflection();
  std::vector<const Field *> fields;
  r->ListFields(*m, &fields);
  for (const Field *f : fields) {
    if (f->type() == Field::TYPE_STRING) {
      spellStrings(m, f);
    } else if (f->cpp_type() == Field::CPPTYPE_MESSAGE) {
      for (int i = 0; f->is_repeated() && i < r->FieldSize(*m, f); ++i)
        spellMessage(r->MutableRepeatedMessage(m, f, i));
      if (!f->is_repeated()) spellMessage(r->MutableMessage(m, f));
    }
  }
}

bool mayNeedSpelling(std::string_view text) {
  unsigned char found = 0; // no way out in between: without one it is a loop over vectors
  for (unsigned char c : text) found |= (c == '\\') | (c == '\t') | (c >= 0x7f);
  return found != 0;
}

} // namespace

void spellNames(graph::Job *job, std::string_view bytes, bool isText) {
  if (!isText || mayNeedSpelling(bytes)) spellMessage(job);
}

} // namespace opc
