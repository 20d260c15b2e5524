// Writes the CUDA sources of all elementwise ops from their recorded scalar functions: WriteElementwise FOLDER COUNT
// SPDX-License-Identifier: Apache-2.0
#include "DerivedGradient.h"
#include "ElementwiseKey.h"
#include "Registry.h"
#include "RunOp.h"

#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

using namespace opc;
using scalar::ScalarOp;
using scalar::ScalarProgram;
using user_op::OpDef;

namespace {

/// The C++ types of the elements, by name of type.
const char *cppType(DataType type) {
  switch (type) {
#define OPC_ELEMENT(enumerator, number, cpp, ...)                                                                      \
  case enumerator: return #cpp;
    OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  default: return "";
  }
}

std::string constantText(double v) {
  if (v != v) return "f32::kNan64";
  if (v > std::numeric_limits<double>::max()) return "f32::kInf64";
  if (v < std::numeric_limits<double>::lowest()) return "-f32::kInf64";
  char text[64];
  std::snprintf(text, sizeof text, "%a", v);
  return text;
}

/// One node, over the values v0, v1, ... of those before it.
std::string nodeText(const ScalarProgram::Node &n) {
  auto number = [&](int i) { return "asNumber<C>(v" + std::to_string(n.args[i]) + ")"; };
  auto truth = [&](int i) { return "asTruth<C>(v" + std::to_string(n.args[i]) + ")"; };
  const std::string name = scalar::scalarOpName(n.op);
  switch (n.op) {
  case ScalarOp::kConstant: return "N(" + constantText(n.value) + ")";
  case ScalarOp::kParameter: return "p[" + std::to_string(n.parameter) + "]";
  case ScalarOp::kNegate: return "-" + number(0);
  case ScalarOp::kNot: return "!" + truth(0);
  case ScalarOp::kAnd: return truth(0) + " && " + truth(1);
  case ScalarOp::kOr: return truth(0) + " || " + truth(1);
  case ScalarOp::kXor: return truth(0) + " ^ " + truth(1);
  case ScalarOp::kSelect: return "Functions::select(" + truth(0) + ", " + number(1) + ", " + number(2) + ")";
  default: break;
  }
  const bool isSymbol = std::isalpha(static_cast<unsigned char>(name[0])) == 0;
  if (isSymbol) return number(0) + " " + name + " " + number(1);
  return "Functions::" + name + "(" + number(0) + (scalar::scalarOpArity(n.op) == 2 ? ", " + number(1) : "") + ")";
}

/// Whether a function is bound by arithmetic on any device.
bool isLong(const ScalarProgram &program) {
  size_t work = 0;
  for (const auto &n : program.nodes())
    work += n.op == ScalarOp::kConstant || n.op == ScalarOp::kParameter ? 0 : n.op > ScalarOp::kSelect ? 8 : 1;
  return work > 16;
}

/// A function and its kernels, as text.
struct Source {
  std::string text;
  size_t kernels = 0;
};

class Sources {
public:
  explicit Sources(const Registry &registry) : registry_(registry) {}

  void add(const OpDef &op) {
    if (!op.scalar) return;
    addFunction(op);
    // The ops that gradients of this one name; where an op of the name is registered, rules take that one.
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      auto derived = registry_.derivedGradient(op, static_cast<int32_t>(i));
      if (derived && *derived && registry_.findOp((*derived)->def.name) == &(*derived)->def)
        addFunction((*derived)->def);
    }
  }
  const std::vector<Source> &all() const { return sources_; }

private:
  /// Whether the op's result is a truth value, by its own rule.
  bool givesBool(const OpDef &op, DataType type) const {
    SingleOp single;
    single.type = op.name;
    for (const user_op::ArgDef &a : op.inputs) single.inputs.push_back({a.name, user_op::TensorDesc(Shape{1}, type)});
    if (!op.cases.empty()) single.attrs = op.cases.front().attrs();
    auto instance = instanceOf(registry_, single);
    return instance && instance->outputDescs()[0].data_type() == kBool;
  }

  void addFunction(const OpDef &op) {
    const ScalarProgram &program = *op.scalar;
    Source source;
    std::string kernels;
    for (const user_op::KernelDef *k : registry_.kernels(op.name)) {
      const KernelTarget target = kernelTarget(*k);
      const DataType type = parseDataType(target.dtype);
      if (target.device != "cpu" || type == kInvalidDataType) continue;
      const bool toBool = givesBool(op, type);
      const std::string prefix = cuda::elementwiseKernelPrefix(program, type, toBool);
      if (!seen_.insert(prefix).second) continue;
      ++source.kernels;
      // Of bool it is another function than the recorded one, whose -1 no unsigned number is.
      if (op.name == "bitwise_not" && !(elementType(type).isSigned)) continue;
      kernels += "OPC_ELEMENTWISE_KERNEL(" + prefix + op.name + ", F" + std::to_string(sources_.size()) + ", " +
                 cppType(type) + ", " + (toBool ? "bool" : cppType(type)) + ")\n";
    }
    if (kernels.empty()) return;
    std::ostringstream out;
    out << "// " << op.name << ": " << program.text().substr(0, 200) << "\nstruct F" << sources_.size()
        << " {\n  static constexpr int kInputs = " << program.inputs()
        << ", kParameters = " << program.parameterNames().size()
        << ";\n  static constexpr bool kIsLong = " << (isLong(program) ? "true" : "false")
        << ";\n  template <class C> static __device__ auto apply(const Number<C> *p) {\n    using N = Number<C>;\n";
    const auto &nodes = program.nodes();
    for (size_t i = 0; i < nodes.size(); ++i)
      out << "    [[maybe_unused]] const auto v" << i << " = " << nodeText(nodes[i]) << ";\n";
    out << "    return v" << nodes.size() - 1 << ";\n  }\n};\n" << kernels;
    source.text = out.str();
    sources_.push_back(std::move(source));
  }

  const Registry &registry_;
  std::vector<Source> sources_;
  std::set<std::string> seen_;
};

/// Files that say what they said before stay as they are: nothing is compiled again.
bool write(const std::string &path, const std::string &text) {
  std::ifstream old(path, std::ios::binary);
  if (old && std::string((std::istreambuf_iterator<char>(old)), std::istreambuf_iterator<char>()) == text) return true;
  std::ofstream out(path, std::ios::binary);
  out << text;
  return out.good();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: WriteElementwise FOLDER COUNT\n"), 2;
  const std::string folder = argv[1];
  const size_t count = std::stoul(argv[2]);
  Registry registry;
  if (Status s = registry.addLinked(); !s.isOk()) return std::fprintf(stderr, "%s\n", s.toString().c_str()), 1;
  Sources sources(registry);
  for (const OpDef *op : registry.ops()) sources.add(*op);
  size_t total = 0, done = 0, at = 0;
  for (const Source &s : sources.all()) total += s.kernels;
  for (size_t file = 0; file < count; ++file) {
    std::ostringstream out;
    out << "// Written by WriteElementwise.\n#include \"Elementwise.cuh\"\n\nnamespace opc::cuda {\n"
        << "namespace f32 = ::opc::scalar::f32;\n";
    for (; at < sources.all().size() && done < total * (file + 1) / count; ++at) {
      out << sources.all()[at].text;
      done += sources.all()[at].kernels;
    }
    out << "} // namespace opc::cuda\n";
    if (!write(folder + "/elementwise_" + std::to_string(file) + ".cu", out.str()))
      return std::fprintf(stderr, "%s cannot be written\n", folder.c_str()), 1;
  }
  return 0;
}
