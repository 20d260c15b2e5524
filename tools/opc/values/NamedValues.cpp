// Values by name.
// SPDX-License-Identifier: Apache-2.0
#include "NamedValues.h"

#include "NearestNames.h"

#include <algorithm>

namespace opc::cli {

Result<NamedValues> NamedValues::open(const std::vector<std::string> &specs, const std::string &archivePath,
                                      const std::string &flag) {
  NamedValues values;
  for (const std::string &text : specs) {
    OPC_ASSIGN_OR_RETURN(auto named, splitNamed(text, flag));
    if (values.find(named.first))
      return Status(StatusCode::kUsage, "OPC0003", flag + " is given twice for '" + named.first + "'");
    Result<TensorSpec> spec = parseTensorSpec(named.second);
    if (!spec) return Status(spec.status()).withContext("reading " + flag + " " + text);
    values.entries_.push_back({named.first, named.second, flag, std::move(*spec), nullptr});
  }
  if (archivePath.empty()) return values;
  const char *role = flag == "--input" ? "input" : flag == "--expect" ? "output" : "";
  OPC_ASSIGN_OR_RETURN(values.archive_, openTensorArchive(archivePath, role));
  values.archivePath_ = archivePath;
  return values;
}

const NamedValues::Entry *NamedValues::find(const std::string &name) const {
  for (const Entry &e : entries_)
    if (e.name == name) return &e;
  return nullptr;
}

bool NamedValues::has(const std::string &name) const { return find(name) || (archive_ && archive_->contains(name)); }

Result<const TensorFile *> NamedValues::Entry::open() const {
  if (!file) {
    OPC_ASSIGN_OR_RETURN(TensorFile opened, TensorFile::open(spec.path));
    file = std::make_unique<TensorFile>(std::move(opened));
  }
  return file.get();
}

Result<HostTensor> NamedValues::make(const SpecContext &context) const {
  if (const Entry *e = find(context.name)) {
    if (e->spec.kind != TensorSpec::Kind::kFile) return makeTensor(e->spec, context);
    OPC_ASSIGN_OR_RETURN(const TensorFile *file, e->open());
    return makeTensor(e->spec, context, file);
  }
  TensorReadOptions options;
  if (context.expected) options.voidType = context.expected->data_type();
  Result<HostTensor> read = archive_->read(context.name, options);
  if (!read || !context.cast || !context.expected || read->dtype() == context.expected->data_type()) return read;
  return castTensor(*read, context.expected->data_type());
}

Result<bool> NamedValues::readInto(const SpecContext &context, void *to) const {
  const user_op::TensorDesc &wanted = *context.expected;
  const Entry *e = find(context.name);
  if (!e) {
    TensorReadOptions options;
    options.voidType = wanted.data_type();
    const Result<user_op::TensorDesc> found = archive_->describe(context.name, options);
    if (!found || *found != wanted) return false;
    OPC_RETURN_IF_ERROR(archive_->readInto(context.name, wanted, to));
    return true;
  }
  if (e->spec.kind != TensorSpec::Kind::kFile) return false;
  OPC_ASSIGN_OR_RETURN(const TensorFile *file, e->open());
  const Result<user_op::TensorDesc> found = file->describe(wanted.data_type());
  if (!found || found->shape() != wanted.shape()) return false;
  if (found->data_type() == wanted.data_type()) {
    OPC_RETURN_IF_ERROR(file->readInto(wanted, to));
    return true;
  }
  if (!context.cast) return false;
  char *out = static_cast<char *>(to);
  const auto size = static_cast<int64_t>(GetSizeOfDataType(wanted.data_type()));
  OPC_RETURN_IF_ERROR(file->forEachBlock([&](const void *elements, int64_t first, int64_t count) {
    return castElements(found->data_type(), elements, first, count, wanted.data_type(), out + first * size);
  }));
  return true;
}

Result<std::optional<Shape>> NamedValues::shapeOf(const std::string &name, DataType expected) const {
  using Found = std::optional<Shape>;
  const Entry *e = find(name);
  if (e && e->spec.desc) return Found(e->spec.desc->shape());
  OPC_ASSIGN_OR_RETURN(const std::optional<user_op::TensorDesc> type, fileTypeOf(name, expected));
  return type ? Found(type->shape()) : Found();
}

Result<std::optional<user_op::TensorDesc>> NamedValues::fileTypeOf(const std::string &name, DataType expected) const {
  using Found = std::optional<user_op::TensorDesc>;
  const Entry *e = find(name);
  if (!e) {
    TensorReadOptions options;
    options.voidType = expected;
    OPC_ASSIGN_OR_RETURN(user_op::TensorDesc desc, archive_->describe(name, options));
    return Found(std::move(desc));
  }
  if (e->spec.kind != TensorSpec::Kind::kFile) return Found();
  OPC_ASSIGN_OR_RETURN(const TensorFile *file, e->open());
  OPC_ASSIGN_OR_RETURN(user_op::TensorDesc desc, file->describe(expected));
  return Found(std::move(desc));
}

std::optional<user_op::TensorDesc> NamedValues::typeOf(const std::string &name) const {
  const Entry *e = find(name);
  return e ? e->spec.desc : std::nullopt;
}

std::string NamedValues::origin(const std::string &name) const {
  const Entry *e = find(name);
  return e ? e->text : archivePath_;
}

std::string NamedValues::flagOf(const std::string &name) const {
  const Entry *e = find(name);
  return e ? e->flag : "";
}

std::vector<std::string> NamedValues::flagNames() const {
  std::vector<std::string> names;
  for (const Entry &e : entries_) names.push_back(e.name);
  return names;
}

void NamedValues::rename(const std::string &from, const std::string &to) {
  for (Entry &e : entries_)
    if (e.name == from) e.name = to;
}

Status NamedValues::absorb(NamedValues &&other, const std::string &flag) {
  for (Entry &e : other.entries_) {
    if (find(e.name))
      return Status(StatusCode::kUsage, "OPC0003", flag + " gives '" + e.name + "' a value, and it has one already");
    entries_.push_back(std::move(e));
  }
  other.entries_.clear();
  return Status::ok();
}

void NamedValues::drop(const std::string &name) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [&](const Entry &e) { return e.name == name; }),
                 entries_.end());
}

std::vector<std::string> NamedValues::archiveKeys() const {
  std::vector<std::string> keys;
  if (archive_)
    for (const TensorEntry &e : archive_->entries()) keys.push_back(e.key);
  return keys;
}

Status noSuchName(const std::string &kind, const std::string &name, const std::vector<std::string> &known,
                  const std::string &flag, const std::string &lister) {
  const std::vector<std::string> near = nearestNames(name, known, 1);
  std::string help;
  if (!near.empty())
    help = "did you mean " + near[0] + "?";
  else if (!lister.empty())
    help = lister + " lists them";
  else if (known.empty())
    help = "the graph has no " + kind;
  else {
    help = "the graph has";
    for (size_t i = 0; i < known.size() && i < 8; ++i) help += (i ? ", " : " ") + known[i];
    if (known.size() > 8) help += ", ...";
  }
  return Status(StatusCode::kUsage, "OPC0005", "the graph has no " + kind + " '" + name + "' (" + flag + ")")
      .withHelp(help);
}

} // namespace opc::cli
