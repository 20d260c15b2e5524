// Between the dialect's attributes and the messages of graph files.
// SPDX-License-Identifier: Apache-2.0
#include "GraphAttributes.h"

using namespace mlir;

namespace opc {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;

Attribute fieldToMlir(Builder &b, const pb::Message &m, const Field *f) {
  const pb::Reflection *r = m.GetReflection();
  switch (f->cpp_type()) {
  case Field::CPPTYPE_FLOAT: return b.getF32FloatAttr(r->GetFloat(m, f));
  case Field::CPPTYPE_DOUBLE: return b.getF64FloatAttr(r->GetDouble(m, f));
  case Field::CPPTYPE_INT32: return b.getI32IntegerAttr(r->GetInt32(m, f));
  case Field::CPPTYPE_INT64: return b.getI64IntegerAttr(r->GetInt64(m, f));
  case Field::CPPTYPE_ENUM: return b.getI32IntegerAttr(r->GetEnumValue(m, f));
  default: return b.getStringAttr(r->GetString(m, f));
  }
}

void fieldToProto(Attribute a, pb::Message *m, const Field *f) {
  const pb::Reflection *r = m->GetReflection();
  switch (f->cpp_type()) {
  case Field::CPPTYPE_FLOAT: return r->SetFloat(m, f, cast<FloatAttr>(a).getValue().convertToFloat());
  case Field::CPPTYPE_DOUBLE: return r->SetDouble(m, f, cast<FloatAttr>(a).getValue().convertToDouble());
  case Field::CPPTYPE_INT32: return r->SetInt32(m, f, static_cast<int32_t>(cast<IntegerAttr>(a).getInt()));
  case Field::CPPTYPE_INT64: return r->SetInt64(m, f, cast<IntegerAttr>(a).getInt());
  case Field::CPPTYPE_ENUM: return r->SetEnumValue(m, f, static_cast<int>(cast<IntegerAttr>(a).getInt()));
  default: return r->SetString(m, f, cast<StringAttr>(a).str());
  }
}

/// OneFlow's names of the passes, and opc's own for what adds up gradients.
constexpr std::pair<ir::Role, StringLiteral> kPasses[] = {{ir::Role::kForward, "forward_pass"},
                                                          {ir::Role::kBackward, "backward_pass"},
                                                          {ir::Role::kOptimizer, "optimizer_pass"},
                                                          {ir::Role::kAccumulation, "accumulation_pass"}};

} // namespace

ir::InitializerAttr toMlir(MLIRContext *context, const graph::InitializerConf &conf) {
  const Field *kind =
      conf.GetReflection()->GetOneofFieldDescriptor(conf, graph::InitializerConf::descriptor()->oneof_decl(0));
  if (!kind) return {};
  const pb::Message &m = conf.GetReflection()->GetMessage(conf, kind);
  Builder b(context);
  std::vector<const Field *> set;
  m.GetReflection()->ListFields(m, &set);
  SmallVector<NamedAttribute> fields;
  for (const Field *f : set) fields.push_back(b.getNamedAttr(f->name(), fieldToMlir(b, m, f)));
  return ir::InitializerAttr::get(context, b.getStringAttr(kind->name()), b.getDictionaryAttr(fields));
}

void toProto(ir::InitializerAttr initializer, graph::InitializerConf *conf) {
  const Field *kind = graph::InitializerConf::descriptor()->FindFieldByName(initializer.getKind().str());
  pb::Message *m = conf->GetReflection()->MutableMessage(conf, kind);
  for (NamedAttribute a : initializer.getFields())
    fieldToProto(a.getValue(), m, m->GetDescriptor()->FindFieldByName(a.getName().str()));
}

ir::InitializerAttr withoutDefaults(ir::InitializerAttr initializer) {
  graph::InitializerConf conf;
  const Field *kind = conf.GetDescriptor()->FindFieldByName(initializer.getKind().str());
  const pb::Message *unset = conf.GetReflection()->MutableMessage(&conf, kind);
  Builder b(initializer.getContext());
  SmallVector<NamedAttribute> fields;
  for (NamedAttribute a : initializer.getFields())
    if (fieldToMlir(b, *unset, unset->GetDescriptor()->FindFieldByName(a.getName().str())) != a.getValue())
      fields.push_back(a);
  return ir::InitializerAttr::get(b.getContext(), initializer.getKind(), b.getDictionaryAttr(fields));
}

std::optional<ir::Role> roleOfPass(StringRef passName) {
  for (const auto &[role, name] : kPasses)
    if (name == passName) return role;
  return std::nullopt;
}

StringRef passName(ir::Role role) {
  return llvm::find_if(kPasses, [&](const auto &p) { return p.first == role; })->second;
}

static constexpr StringRef kOriginTag = "gradient_of:";

std::string tagOfOrigin(StringRef op) { return (kOriginTag + op).str(); }
StringRef originOfTag(StringRef passTag) { return passTag.consume_front(kOriginTag) ? passTag : StringRef(); }

} // namespace opc
