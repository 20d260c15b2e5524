// Tensors on the command line: the grammar, and the values it gives.
// SPDX-License-Identifier: Apache-2.0
#include "TensorSpec.h"

#include "NearestNames.h"
#include "NumberText.h"
#include "TextParts.h"
#include "opc/Convert.h"
#include "opc/PackedElements.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::cli {

namespace {

Status specError(const std::string &message, const std::string &help = "") {
  return Status(StatusCode::kUsage, "OPC0003", message)
      .withHelp(help.empty() ? "the forms are @x.npy, @in.npz:key, 'f32[2,3]:@x.bin', 'f32[2,2]:1,2,3,4', 3.5, "
                               "'f32[4]:rand(-1,1)', randn, iota, zeros, ones"
                             : help);
}

std::vector<std::string> splitAtCommas(const std::string &text) {
  std::vector<std::string> parts = splitAt(text, ',');
  for (std::string &part : parts) {
    const size_t a = part.find_first_not_of(" \t\n"), b = part.find_last_not_of(" \t\n");
    part = a == std::string::npos ? "" : part.substr(a, b - a + 1);
  }
  return parts;
}

bool looksLikeNumber(const std::string &text) { return parseReal(text) || text == "true" || text == "false"; }

Status unknownType(const std::string &name, const std::string &text) {
  std::vector<std::string> names;
  for (DataType type : dataTypes<types::All>()) names.push_back(dataTypeName(type));
  const std::string near = didYouMean(name, names);
  return specError("'" + name + "' is not an element type in '" + text + "'",
                   near + (near.empty() ? "" : " ") + "The types are " + elementTypeNames());
}

/// TYPE "[" DIMS "]" ":" at the front of `text`; removes it. No error when it is not there.
Result<std::optional<user_op::TensorDesc>> takeType(std::string &text) {
  using Desc = std::optional<user_op::TensorDesc>;
  const size_t open = text.find('[');
  const size_t close = text.find("]:");
  if (const size_t colon = text.find(':'); colon < open && isTensorDataType(parseDataType(text.substr(0, colon))))
    return specError("the type of '" + text + "' has no dimensions",
                     "write " + text.substr(0, colon) + "[]:... for a scalar, " + text.substr(0, colon) +
                         "[4]:... for four elements");
  if (open == std::string::npos || close == std::string::npos || close < open || text[0] == '@') return Desc();
  const std::string typeName = text.substr(0, open);
  const DataType type = parseDataType(typeName);
  if (!isTensorDataType(type)) return unknownType(typeName, text);
  OPC_ASSIGN_OR_RETURN(Shape shape, parseDims(text.substr(open + 1, close - open - 1)));
  text.erase(0, close + 2);
  return Desc(user_op::TensorDesc(shape, type));
}

/// "rand(-1,1)": the two arguments, when `text` is `name` with or without them.
Result<bool> takeGenerator(const std::string &text, const std::string &name, TensorSpec &spec) {
  if (text == name) return true;
  if (text.rfind(name + "(", 0) != 0) return false;
  if (text.back() != ')') return specError("missing ')' in '" + text + "'");
  const std::vector<std::string> parts = splitAtCommas(text.substr(name.size() + 1, text.size() - name.size() - 2));
  if (parts.size() == 2) spec.first = parseReal(parts[0]), spec.second = parseReal(parts[1]);
  if (!spec.first || !spec.second || !std::isfinite(*spec.first) || !std::isfinite(*spec.second))
    return specError("'" + text + "' needs two finite numbers",
                     name + (name == "rand" ? "(-1,1)" : "(0,1)") + ", or just " + name);
  if (name == "rand" && *spec.first > *spec.second)
    return specError("the range of '" + text + "' is empty", "put the smaller number first");
  if (name == "randn" && *spec.second < 0) return specError("the standard deviation of '" + text + "' is negative");
  return true;
}

Status numberError(const std::string &text, DataType type, const char *why) {
  return specError("'" + text + "' " + why + " " + dataTypeName(type),
                   "write a value that " + std::string(dataTypeName(type)) + " can hold");
}

template <class T> Status putInteger(T *out, const std::string &text, DataType type) {
  if (text == "true" || text == "false") {
    *out = text == "true";
    return Status::ok();
  }
  if (const auto v = parseInteger<T>(text)) {
    *out = *v;
    return Status::ok();
  }
  // 1e3 and 2.0 are integers, too, as long as a double holds them exactly.
  const auto real = parseReal(text);
  if (!real) return numberError(text, type, "is no");
  if (*real != std::trunc(*real)) return numberError(text, type, "is not a whole number, as wanted by");
  const bool plain = text.find_first_not_of("+-0123456789") == std::string::npos;
  const double limit = 9007199254740992.0; // 2^53
  if (plain || std::abs(*real) > limit || *real < static_cast<double>(std::numeric_limits<T>::min()) ||
      *real > static_cast<double>(std::numeric_limits<T>::max()))
    return numberError(text, type, "does not fit");
  *out = static_cast<T>(*real);
  return Status::ok();
}

template <class T> Status putNarrow(T *out, const std::string &text, DataType type) {
  int wide = 0;
  OPC_RETURN_IF_ERROR(putInteger(&wide, text, type));
  if (wide < T::kLowest || wide > T::kHighest) return numberError(text, type, "does not fit");
  *out = T(wide);
  return Status::ok();
}

template <class T> Status putReal(T *out, const std::string &text, DataType type) {
  std::optional<double> v = text == "true" ? 1.0 : text == "false" ? 0.0 : parseReal(text);
  if (!v) return numberError(text, type, "is no number for");
  const ElementType &limits = elementType(type);
  if (std::isfinite(*v) && (*v > limits.highest || *v < limits.lowest))
    return numberError(text, type, "is too large for");
  *out = convertElement<T>(*v);
  return Status::ok();
}

Status putBool(bool *out, const std::string &text) {
  uint8_t v = 0;
  OPC_RETURN_IF_ERROR(putInteger(&v, text, kBool));
  if (v > 1) return numberError(text, kBool, "is no");
  *out = v != 0;
  return Status::ok();
}

Status putNumber(HostTensor &t, int64_t i, const std::string &text) {
  return withElements(t, [&](auto *elements) {
    using T = std::remove_pointer_t<decltype(elements)>;
    if constexpr (std::is_same_v<T, bool>)
      return putBool(elements + i, text);
    else if constexpr (std::is_integral_v<T>)
      return putInteger(elements + i, text, t.dtype());
    else if constexpr (isNarrowInteger<T>)
      return putNarrow(elements + i, text, t.dtype());
    else
      return putReal(elements + i, text, t.dtype());
  });
}

void repeatFirst(HostTensor &t) {
  const size_t size = GetSizeOfDataType(t.dtype());
  char *data = static_cast<char *>(t.data());
  for (size_t filled = size; filled < t.bytes(); filled *= 2)
    std::memcpy(data + filled, data, std::min(filled, t.bytes() - filled));
}

Result<HostTensor> fromNumbers(const TensorSpec &spec, const user_op::TensorDesc &desc, const std::string &name) {
  Result<HostTensor> made = HostTensor::create(desc.data_type(), desc.shape());
  if (!made) return made.status();
  const int64_t count = made->elemCount();
  if (spec.numbers.size() == 1 && count != 1) {
    OPC_ASSIGN_OR_RETURN(HostTensor one, HostTensor::create(desc.data_type(), Shape()));
    OPC_RETURN_IF_ERROR(putNumber(one, 0, spec.numbers[0]));
    if (count == 0) return made;
    std::memcpy(made->data(), one.data(), one.bytes());
    repeatFirst(*made);
    return made;
  }
  if (static_cast<int64_t>(spec.numbers.size()) != count)
    return specError(name + ": " + std::to_string(spec.numbers.size()) + " numbers for the " + std::to_string(count) +
                         " elements of " + desc.toString(),
                     "give " + std::to_string(count) + " numbers, or one for all");
  for (int64_t i = 0; i < count; ++i)
    if (Status s = putNumber(*made, i, spec.numbers[static_cast<size_t>(i)]); !s.isOk())
      return std::move(s).withContext("reading number " + std::to_string(i + 1) + " of " + std::to_string(count));
  return made;
}

/// Text that reads back as the same value.
template <class T> std::string textOf(T element) {
  const auto v = numberOf(element);
  if constexpr (std::is_floating_point_v<std::decay_t<decltype(v)>>) {
    if (!std::isfinite(v)) return realText(static_cast<double>(v));
    char buffer[64];
    const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
    return std::string(buffer, r.ptr);
  } else {
    return std::to_string(v);
  }
}

} // namespace

Result<std::pair<std::string, std::string>> splitNamed(const std::string &text, const std::string &flag) {
  const size_t eq = text.find('=');
  if (eq == std::string::npos || eq == 0)
    return specError(flag + " takes NAME=..., not '" + text + "'",
                     flag + " NAME=SPEC, for example " + flag + " x=@x.npy");
  return std::make_pair(text.substr(0, eq), text.substr(eq + 1));
}

Result<Shape> parseDims(const std::string &text, int64_t least) {
  DimVector dims;
  if (text.find_first_not_of(" ") == std::string::npos) return Shape();
  for (const std::string &part : splitAtCommas(text)) {
    const auto d = parseInteger<int64_t>(part);
    if (!d)
      return specError("'" + part + "' is no dimension in '" + text + "'",
                       "dimensions are whole numbers with commas between: 32,784");
    if (*d < least)
      return specError("the dimension " + part + " in '" + text + "' is less than " + std::to_string(least),
                       "dimensions are whole numbers with commas between: 32,784");
    dims.push_back(*d);
  }
  if (static_cast<int64_t>(dims.size()) > kMaxRank)
    return specError("'" + text + "' has rank " + std::to_string(dims.size()) + ", the largest is " +
                         std::to_string(kMaxRank),
                     "use fewer dimensions");
  return Shape(std::move(dims));
}

Result<TensorSpec> parseTensorSpec(const std::string &whole) {
  TensorSpec spec;
  std::string text = whole;
  if (text.empty()) return specError("an empty tensor specification");
  OPC_ASSIGN_OR_RETURN(std::optional<user_op::TensorDesc> desc, takeType(text));
  spec.desc = desc;
  if (text.empty()) return specError("no value after the type in '" + whole + "'");
  if (text[0] == '@') {
    spec.kind = spec.desc ? TensorSpec::Kind::kRaw : TensorSpec::Kind::kFile;
    spec.path = text.substr(1);
    if (spec.path.empty()) return specError("no file after '@' in '" + whole + "'");
    return spec;
  }
  if (text == "zeros") return spec.kind = TensorSpec::Kind::kZeros, spec;
  if (text == "ones") return spec.kind = TensorSpec::Kind::kOnes, spec;
  if (text == "iota") return spec.kind = TensorSpec::Kind::kIota, spec;
  for (const char *name : {"rand", "randn"}) {
    OPC_ASSIGN_OR_RETURN(bool taken, takeGenerator(text, name, spec));
    if (!taken) continue;
    spec.kind = std::string_view(name) == "rand" ? TensorSpec::Kind::kUniform : TensorSpec::Kind::kNormal;
    return spec;
  }
  spec.numbers = splitAtCommas(text);
  for (const std::string &n : spec.numbers) {
    if (looksLikeNumber(n)) continue;
    if (spec.numbers.size() == 1)
      return specError("'" + n + "' is neither a number nor a file", "for a file put '@' in front: @" + n);
    return specError("'" + n + "' is no number in '" + whole + "'");
  }
  return spec;
}

namespace {
/// What is drawn lies in the range that was written, or is refused: the type may have nothing there.
Status checkRange(const TensorSpec &spec, DataType type, const std::string &name) {
  if (!spec.first || !spec.second) return Status::ok();
  const double low = *spec.first, high = *spec.second;
  const ElementType &limits = elementType(type);
  const bool isUniform = spec.kind == TensorSpec::Kind::kUniform;
  const std::string written = (isUniform ? "rand(" : "randn(") + realText(low) + "," + realText(high) + ")";
  const auto refuse = [&](const std::string &why) {
    return specError(name + ": " + written + " for " + dataTypeName(type) + ": " + why,
                     "give a range that " + std::string(dataTypeName(type)) + " has numbers in, or another type");
  };
  if (!holdsFractions(type)) {
    if (type == kBool && (low > 0 || high < 1)) return refuse("it takes 0 and 1, each as often: rand");
    if (low > limits.highest || high < limits.lowest) return refuse("it has no number there");
    return std::ceil(low) > std::floor(high) ? refuse("no whole number is there") : Status::ok();
  }
  if (std::max(std::abs(low), std::abs(high)) > limits.highest) return refuse("it has no numbers that large");
  const double widest = type == kDouble ? limits.highest : elementType(kFloat).highest; // in which it is computed
  return isUniform && high - low > widest ? refuse("the range is too wide") : Status::ok();
}

Result<HostTensor> makeUnconverted(const TensorSpec &spec, const SpecContext &context, const TensorFile *file) {
  using Kind = TensorSpec::Kind;
  if (spec.kind == Kind::kRaw) return readRaw(spec.path, spec.desc->data_type(), spec.desc->shape());
  if (spec.kind == Kind::kFile) {
    const DataType expected = context.expected ? context.expected->data_type() : kInvalidDataType;
    return file ? file->read(expected) : readTensor(spec.path, expected);
  }
  if (!spec.desc && !context.expected)
    return specError(context.name + ": the graph does not say its type, and the specification neither",
                     "write it in front: 'f32[2,3]:...'");
  const user_op::TensorDesc desc = spec.desc ? *spec.desc : *context.expected;
  for (int64_t d : desc.shape())
    if (d < 0)
      return specError(context.name + ": the graph leaves a dimension of " + desc.toString() +
                           " open, and the specification does not give it",
                       "write the type in front: 'f32[2,3]:...', or give --shape " + context.name + "=...");
  if (spec.kind == Kind::kNumbers) return fromNumbers(spec, desc, context.name);
  OPC_RETURN_IF_ERROR(checkRange(spec, desc.data_type(), context.name));
  OPC_ASSIGN_OR_RETURN(HostTensor made, HostTensor::create(desc.data_type(), desc.shape()));
  const FillKey key{context.seed, stableHash(context.name)};
  const bool integral = !holdsFractions(desc.data_type());
  switch (spec.kind) {
  case Kind::kOnes: fillConstant(&made, 1); break;
  case Kind::kIota: fillIota(&made); break;
  // Without a range: [-1, 1) for floating types; 0 and 1 for integers, which are often indices.
  case Kind::kUniform: fillUniform(&made, spec.first.value_or(integral ? 0 : -1), spec.second.value_or(1), key); break;
  case Kind::kNormal:
    if (integral)
      return specError(context.name + ": randn needs a floating type, not " + dataTypeName(desc.data_type()),
                       "use rand or iota");
    fillNormal(&made, spec.first.value_or(0), spec.second.value_or(1), key);
    break;
  default: break; // zeros
  }
  return made;
}
} // namespace

Result<HostTensor> makeTensor(const TensorSpec &spec, const SpecContext &context, const TensorFile *file) {
  Result<HostTensor> made = makeUnconverted(spec, context, file);
  if (!made || !context.cast || !context.expected || made->dtype() == context.expected->data_type()) return made;
  return castTensor(*made, context.expected->data_type());
}

Result<HostTensor> castTensor(const HostTensor &tensor, DataType type) {
  OPC_ASSIGN_OR_RETURN(HostTensor made, HostTensor::create(type, tensor.shape()));
  OPC_RETURN_IF_ERROR(castElements(tensor.dtype(), tensor.data(), 0, tensor.elemCount(), type, made.data()));
  return made;
}

Status castElements(DataType from, const void *elements, int64_t first, int64_t count, DataType to, void *out) {
  return visit(from, [&](auto source) -> Status {
    using From = typename decltype(source)::type;
    const From *in = static_cast<const From *>(elements);
    int64_t bad = -1;
    visit(to, [&](auto target) {
      using To = typename decltype(target)::type;
      for (int64_t i = 0; i < count; ++i) {
        static_cast<To *>(out)[i] = convertElement<To>(in[i]);
        if (bad < 0 && !fitsElement<To>(in[i])) bad = i;
      }
    });
    if (bad < 0) return Status::ok();
    return Status(StatusCode::kUsage, "OPC0703",
                  "element " + std::to_string(first + bad) + ", " + textOf(in[bad]) + ", does not fit " +
                      dataTypeName(to));
  });
}

double elementAt(const HostTensor &tensor, int64_t index) {
  return withElements(tensor, [&](const auto *p) { return static_cast<double>(numberOf(p[index])); });
}

std::string elementText(const HostTensor &tensor, int64_t index) {
  if (tensor.dtype() == kBool) return tensor.as<uint8_t>()[index] ? "true" : "false";
  return withElements(tensor, [&](const auto *p) { return textOf(p[index]); });
}

} // namespace opc::cli
