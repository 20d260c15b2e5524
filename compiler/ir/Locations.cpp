// What opc keeps in an op's location.
// SPDX-License-Identifier: Apache-2.0
#include "Locations.h"
#include "OpcDialect.h"

using namespace mlir;

namespace opc::ir {

namespace {

DictionaryAttr attributeOf(const OpPlace &place, Builder &b) {
  SmallVector<NamedAttribute> parts = {b.getNamedAttr("file", b.getStringAttr(place.file))};
  if (!place.node.empty()) {
    parts.push_back(b.getNamedAttr("node", b.getStringAttr(place.node)));
  } else {
    parts.push_back(b.getNamedAttr("line", b.getI32IntegerAttr(static_cast<int32_t>(place.line))));
    parts.push_back(b.getNamedAttr("column", b.getI32IntegerAttr(static_cast<int32_t>(place.column))));
  }
  return b.getDictionaryAttr(parts);
}

OpPlace placeIn(DictionaryAttr extra) {
  OpPlace place;
  const auto parts = extra ? extra.getAs<DictionaryAttr>("place") : DictionaryAttr();
  if (!parts) return place;
  if (auto file = parts.getAs<StringAttr>("file")) place.file = file.str();
  if (auto node = parts.getAs<StringAttr>("node")) place.node = node.str();
  if (auto line = parts.getAs<IntegerAttr>("line")) place.line = static_cast<uint32_t>(line.getInt());
  if (auto column = parts.getAs<IntegerAttr>("column")) place.column = static_cast<uint32_t>(column.getInt());
  return place;
}

/// What a location has beside the op's name and its range; null when that is nothing.
DictionaryAttr extraOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc)) loc = name.getChildLoc();
  const auto fused = dyn_cast<FusedLoc>(loc);
  return fused ? dyn_cast_if_present<DictionaryAttr>(fused.getMetadata()) : DictionaryAttr();
}

} // namespace

Location makeLocation(MLIRContext *ctx, const OpLocation &p) {
  Location place = UnknownLoc::get(ctx);
  if (p.line != 0)
    place = FileLineColRange::get(StringAttr::get(ctx, p.file), p.line, p.column, p.endLine, p.endColumn);
  if (!p.pythonLoc.empty() || p.place.isKnown() || !p.conf.empty() || !p.tensors.empty()) {
    SmallVector<NamedAttribute> extra;
    Builder b(ctx);
    if (!p.conf.empty()) extra.push_back(b.getNamedAttr("conf", b.getStringAttr(p.conf)));
    if (!p.pythonLoc.empty()) extra.push_back(b.getNamedAttr("loc", b.getStringAttr(p.pythonLoc)));
    if (p.place.isKnown()) extra.push_back(b.getNamedAttr("place", attributeOf(p.place, b)));
    if (!p.tensors.empty()) {
      SmallVector<Attribute> names;
      for (const auto &t : p.tensors) names.push_back(b.getStringAttr(t));
      extra.push_back(b.getNamedAttr("tensors", b.getArrayAttr(names)));
    }
    place = FusedLoc::get({place}, b.getDictionaryAttr(extra), ctx);
  }
  return NameLoc::get(StringAttr::get(ctx, p.name), place);
}

OpLocation readLocation(Location loc) {
  OpLocation parts;
  if (auto name = dyn_cast<NameLoc>(loc)) {
    parts.name = name.getName().str();
    loc = name.getChildLoc();
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (auto extra = dyn_cast_if_present<DictionaryAttr>(fused.getMetadata())) {
      if (auto a = extra.getAs<StringAttr>("conf")) parts.conf = a.str();
      if (auto a = extra.getAs<StringAttr>("loc")) parts.pythonLoc = a.str();
      parts.place = placeIn(extra);
      if (auto a = extra.getAs<ArrayAttr>("tensors"))
        for (Attribute t : a) parts.tensors.push_back(cast<StringAttr>(t).str());
    }
    for (Location l : fused.getLocations())
      if (isa<FileLineColRange>(l)) {
        loc = l;
        break;
      }
  }
  if (auto range = dyn_cast<FileLineColRange>(loc)) {
    parts.file = range.getFilename().str();
    parts.line = range.getStartLine();
    parts.column = range.getStartColumn();
    parts.endLine = range.getEndLine();
    parts.endColumn = range.getEndColumn();
  }
  return parts;
}

OpPlace placeOf(Location loc) { return placeIn(extraOf(loc)); }

std::string opName(Operation *op) {
  if (auto o = dyn_cast<InputOp>(op)) return o.getName().str();
  if (auto o = dyn_cast<VariableOp>(op)) return o.getName().str();
  if (auto o = dyn_cast<OutputOp>(op)) return o.getName().str();
  if (auto name = dyn_cast<NameLoc>(op->getLoc())) return name.getName().str();
  return "";
}

namespace {
/// The names that a location gives the op's results; null when it gives none.
ArrayAttr tensorNames(Location loc) {
  const auto extra = extraOf(loc);
  return extra ? extra.getAs<ArrayAttr>("tensors") : ArrayAttr();
}
} // namespace

std::string tensorName(Value value) {
  if (auto inner = dyn_cast<BlockArgument>(value)) { // of a region: the tensor that it is given
    auto fused = dyn_cast<FusedOp>(inner.getOwner()->getParentOp());
    return fused ? tensorName(fused.getArgs()[inner.getArgNumber()]) : "";
  }
  auto result = dyn_cast<OpResult>(value);
  if (!result) return "";
  Operation *op = result.getOwner();
  const unsigned number = result.getResultNumber();
  if (const ArrayAttr names = tensorNames(op->getLoc()); names && number < names.size())
    return cast<StringAttr>(names[number]).str();
  std::string name = opName(op);
  auto user = dyn_cast<UserOp>(op);
  if (!user) return name.append("/out");
  StringRef arg = "out";
  unsigned index = number, first = 0;
  for (const auto [own, size] : llvm::zip(user.getOutputNames(), user.getOutputSizes())) {
    const unsigned next = first + static_cast<unsigned>(std::max(size, 0));
    if (number >= first && number < next) {
      arg = cast<StringAttr>(own).getValue();
      index = number - first;
      break;
    }
    first = next;
  }
  name.reserve(name.size() + arg.size() + 8);
  name.append("/").append(arg.data(), arg.size()).append("_").append(std::to_string(index));
  return name;
}

Location renamed(Location from, const std::string &name) {
  OpLocation parts = readLocation(from);
  parts.name = name;
  parts.tensors.clear();
  parts.conf.clear();
  return makeLocation(from.getContext(), parts);
}

Location locationOfMaker(Value v) {
  OpLocation parts = readLocation(v.getLoc());
  parts.tensors = {tensorName(v)};
  return makeLocation(v.getContext(), parts);
}

} // namespace opc::ir
