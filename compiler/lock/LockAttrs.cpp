// Attribute values and tensor types in a lock's records.
// SPDX-License-Identifier: Apache-2.0
#include "LockRecords.h"

#include <charconv>
#include <cmath>

namespace opc::lock {
namespace {

/// Numbers that JSON has no spelling for are strings.
template <class T> Json realRecord(T value) {
  if (std::isfinite(value)) return Json(static_cast<double>(value));
  return Json(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

const Json &listOf(const Json &record) {
  if (!record.is_array()) throw BadRecord("a list was expected");
  return record;
}

template <class T, class Read> AttrValue readList(const Json &record, Read read) {
  std::vector<T> values;
  for (const Json &one : listOf(record)) values.push_back(read(one));
  return AttrValue(std::move(values));
}

double realOf(const Json &record) {
  if (!record.is_string()) return record.get<double>();
  const auto text = record.get<std::string>();
  if (text == "nan") return std::nan("");
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  throw BadRecord("'" + text + "' is no number");
}

DataType dataTypeOf(const Json &record) {
  const auto name = record.get<std::string>();
  const DataType type = parseDataType(name);
  // An attribute may say that there is none.
  if (type == kInvalidDataType && name != dataTypeName(type)) throw BadRecord("'" + name + "' is no element type");
  return type;
}

Shape shapeOf(const Json &record) {
  DimVector dims;
  for (const Json &d : listOf(record)) dims.push_back(d.get<int64_t>());
  if (static_cast<int64_t>(dims.size()) > kMaxRank) throw BadRecord("a shape of too many dimensions");
  return Shape(std::move(dims));
}

std::string hexText(const std::string &bytes) {
  std::string text;
  for (const char c : bytes) {
    text.push_back("0123456789abcdef"[static_cast<unsigned char>(c) >> 4]);
    text.push_back("0123456789abcdef"[static_cast<unsigned char>(c) & 15]);
  }
  return text;
}

std::string bytesOfHex(const std::string &text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    const auto r = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (r.ec != std::errc() || r.ptr != text.data() + i + 2) throw BadRecord("'" + text + "' is not hexadecimal");
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

struct AttrWriter {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool v) const { return v; }
  Json operator()(int64_t v) const { return v; }
  Json operator()(const std::string &v) const { return v; }
  Json operator()(double v) const { return {{"f64", realRecord(v)}}; }
  Json operator()(float v) const { return {{"f32", realRecord(v)}}; }
  Json operator()(int32_t v) const { return {{"i32", v}}; }
  Json operator()(const Shape &v) const { return {{"shape", v.dim_vec()}}; }
  Json operator()(DataType v) const { return {{"dtype", dataTypeName(v)}}; }
  Json operator()(const std::vector<int32_t> &v) const { return {{"i32s", v}}; }
  Json operator()(const std::vector<int64_t> &v) const { return {{"i64s", v}}; }
  Json operator()(const std::vector<std::string> &v) const { return {{"strings", v}}; }
  Json operator()(const std::vector<float> &v) const {
    Json list = Json::array();
    for (const float x : v) list.push_back(realRecord(x));
    return {{"f32s", std::move(list)}};
  }
  Json operator()(const std::vector<DataType> &v) const {
    Json list = Json::array();
    for (const DataType x : v) list.push_back(dataTypeName(x));
    return {{"dtypes", std::move(list)}};
  }
  Json operator()(const std::vector<Shape> &v) const {
    Json list = Json::array();
    for (const Shape &x : v) list.push_back(x.dim_vec());
    return {{"shapes", std::move(list)}};
  }
  Json operator()(const RawAttr &v) const {
    return {{"raw", {{"kind", static_cast<int>(v.type)}, {"bytes", hexText(v.bytes)}}}};
  }
};

AttrValue taggedAttr(const std::string &tag, const Json &v) {
  if (tag == "f64") return AttrValue(realOf(v));
  if (tag == "f32") return AttrValue(static_cast<float>(realOf(v)));
  if (tag == "i32") return AttrValue(v.get<int32_t>());
  if (tag == "shape") return AttrValue(shapeOf(v));
  if (tag == "dtype") return AttrValue(dataTypeOf(v));
  if (tag == "i32s") return readList<int32_t>(v, [](const Json &x) { return x.get<int32_t>(); });
  if (tag == "i64s") return readList<int64_t>(v, [](const Json &x) { return x.get<int64_t>(); });
  if (tag == "strings") return readList<std::string>(v, [](const Json &x) { return x.get<std::string>(); });
  if (tag == "f32s") return readList<float>(v, [](const Json &x) { return static_cast<float>(realOf(x)); });
  if (tag == "dtypes") return readList<DataType>(v, dataTypeOf);
  if (tag == "shapes") return readList<Shape>(v, shapeOf);
  if (tag == "raw")
    return AttrValue(RawAttr{static_cast<AttrType>(v.at("kind").get<int>()), bytesOfHex(v.at("bytes"))});
  throw BadRecord("'" + tag + "' is no kind of attribute");
}

} // namespace

Json attrRecord(const AttrValue &value) { return std::visit(AttrWriter(), value.variant()); }

AttrValue attrOf(const Json &record) {
  if (record.is_null()) return {};
  if (record.is_boolean()) return AttrValue(record.get<bool>());
  if (record.is_number_integer()) return AttrValue(record.get<int64_t>());
  if (record.is_string()) return AttrValue(record.get<std::string>());
  if (!record.is_object() || record.size() != 1) throw BadRecord("an attribute is a value or {\"kind\": value}");
  return taggedAttr(record.begin().key(), record.begin().value());
}

std::string typeRecord(DataType dtype, const Shape &shape) {
  std::string text = isTensorDataType(dtype) ? dataTypeName(dtype) : "?";
  text += "[";
  for (int64_t i = 0; i < shape.NumAxes(); ++i) {
    if (i) text += ",";
    text += shape.At(i) < 0 ? "?" : std::to_string(shape.At(i));
  }
  return text + "]";
}

void readType(const std::string &text, DataType *dtype, Shape *shape) {
  const auto bad = [&] { return BadRecord("'" + text + "' is no type of a tensor"); };
  const size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') throw bad();
  const std::string name = text.substr(0, open);
  *dtype = name == "?" ? kInvalidDataType : parseDataType(name);
  if (name != "?" && *dtype == kInvalidDataType) throw bad();
  DimVector dims;
  const char *at = text.data() + open + 1, *end = text.data() + text.size() - 1;
  while (at < end) {
    int64_t value = -1;
    if (*at == '?') {
      ++at;
    } else {
      const auto r = std::from_chars(at, end, value);
      if (r.ec != std::errc() || value < 0) throw bad();
      at = r.ptr;
    }
    dims.push_back(value);
    if (at < end && *at++ != ',') throw bad();
  }
  if (static_cast<int64_t>(dims.size()) > kMaxRank) throw bad();
  *shape = Shape(std::move(dims));
}

} // namespace opc::lock
