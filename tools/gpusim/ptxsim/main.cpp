// opc-ptxsim: runs a kernel of a PTX file in the simulator, with buffers from files, and says what is wrong with it.
// SPDX-License-Identifier: Apache-2.0
#include "Machine.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

using namespace opc::gpusim;

constexpr const char *kUsage = R"(usage: opc-ptxsim FILE.ptx [KERNEL ARGUMENT...] [options]
Runs a kernel in the PTX simulator and prints what is wrong with it. Without KERNEL it lists the kernels of the file
and the instructions that the simulator does not know.

arguments, in the order of the kernel's parameters:
  in:FILE          the address of a buffer with the bytes of FILE
  inout:FILE:OUT   the same; its bytes go to OUT afterwards
  out:BYTES:OUT    the address of a buffer that nobody has written; its bytes go to OUT afterwards (OUT may be empty)
                   A buffer of 0 bytes is a null pointer.
  i32:N  u32:N  i64:N  u64:N  f32:X  f64:X   a number
  raw:HEX          the bytes of a structure
options:
  --grid X[,Y[,Z]]   --block X[,Y[,Z]]   --shared BYTES (dynamic)   --shared-limit BYTES
  --seed N           the order of warps, lanes and blocks (0: in order)
  --limit N          instructions of one warp before it counts as endless
  --counters         instructions, lanes, sectors and wavefronts of each line
exit status: 0 nothing wrong, 1 findings, 2 what was asked for cannot be done
)";

constexpr uint64_t kDeviceBytes = uint64_t(4) << 30;
constexpr uint64_t kMost32 = 0xffffffff;

std::string bytesText(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

[[noreturn]] void refuse(const std::string &message) {
  std::fprintf(stderr, "opc-ptxsim: %s\n", message.c_str());
  std::exit(2);
}

std::string contents(const std::string &path) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file) refuse("cannot read " + path + ": " + std::strerror(errno));
  std::string all;
  std::vector<char> piece(1 << 20);
  while (size_t n = std::fread(piece.data(), 1, piece.size(), file)) {
    all.append(piece.data(), n);
    if (all.size() > kDeviceBytes)
      refuse(path + " is larger than the memory of the device, " + bytesText(kDeviceBytes));
  }
  if (std::ferror(file)) refuse("cannot read " + path + ": " + std::strerror(errno));
  std::fclose(file);
  return all;
}

/// A number from 0 to `most`, in decimal, 0x or 0 before octal digits.
uint64_t number(const std::string &text, uint64_t most = ~uint64_t(0)) {
  char *end = nullptr;
  errno = 0;
  uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || !std::isdigit(uint8_t(text[0])) || *end || errno || value > most)
    refuse("'" + text + "' is no number from 0 to " + std::to_string(most));
  return value;
}

/// A number with or without a sign that `bits` bits can hold.
uint64_t integer(const std::string &text, unsigned bits, bool isSigned) {
  const uint64_t half = uint64_t(1) << (bits - 1);
  if (!isSigned) return number(text, half - 1 + half);
  return text[0] == '-' ? ~number(text.substr(1), half) + 1 : number(text, half - 1);
}

/// `parse` is strtof or strtod.
template <class T> T real(const std::string &text, T (*parse)(const char *, char **)) {
  char *end = nullptr;
  errno = 0;
  T value = parse(text.c_str(), &end);
  if (text.empty() || std::isspace(uint8_t(text[0])) || *end) refuse("'" + text + "' is no number");
  if (errno == ERANGE && std::isinf(value)) refuse("'" + text + "' is too large for its type");
  return value;
}

std::string fromHex(const std::string &text) {
  auto isDigit = [](char c) { return std::isxdigit(uint8_t(c)) != 0; };
  if (text.size() % 2 || !std::all_of(text.begin(), text.end(), isDigit))
    refuse("raw: takes two hexadecimal digits for each byte, and here is '" + text + "'");
  std::string raw;
  for (size_t i = 0; i < text.size(); i += 2) raw.push_back(char(std::strtoul(text.substr(i, 2).c_str(), nullptr, 16)));
  return raw;
}

Dim3 dimensions(const std::string &text) {
  Dim3 d;
  uint32_t *into[] = {&d.x, &d.y, &d.z};
  size_t at = 0;
  for (uint32_t *n : into) {
    size_t comma = text.find(',', at);
    *n = uint32_t(number(text.substr(at, comma - at), kMost32));
    if (comma == text.npos) return d;
    at = comma + 1;
  }
  refuse("'" + text + "' has more than three dimensions");
}

/// What is written to a file when the kernel has ended.
struct Result {
  uint64_t address, bytes;
  std::string path;
};

struct Invocation {
  std::string file, kernel;
  std::vector<std::string> arguments;
  Launch launch;
  bool counters = false;
};

Invocation parseCommand(int argc, char **argv) {
  Invocation v;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    auto value = [&] { return ++i < argc ? std::string(argv[i]) : (refuse(word + " wants a value"), std::string()); };
    if (word == "--help" || word == "-h")
      std::fputs(kUsage, stdout), std::exit(0);
    else if (word == "--grid")
      v.launch.grid = dimensions(value());
    else if (word == "--block")
      v.launch.block = dimensions(value());
    else if (word == "--shared")
      v.launch.dynamicShared = uint32_t(number(value(), kMost32));
    else if (word == "--shared-limit")
      v.launch.sharedLimit = uint32_t(number(value(), kMost32));
    else if (word == "--seed")
      v.launch.seed = number(value());
    else if (word == "--limit")
      v.launch.instructionLimit = number(value());
    else if (word == "--counters")
      v.counters = true;
    else if (word.rfind("--", 0) == 0)
      refuse("there is no option " + word + "\n" + kUsage);
    else if (v.file.empty())
      v.file = word;
    else if (v.kernel.empty())
      v.kernel = word;
    else
      v.arguments.push_back(word);
  }
  if (v.file.empty()) refuse(std::string("no file\n") + kUsage);
  return v;
}

/// The bytes of one argument; buffers are allocated and filled.
std::string argument(const std::string &text, Memory &memory, std::vector<Result> &results) {
  size_t colon = text.find(':');
  std::string kind = text.substr(0, colon), rest = colon == text.npos ? "" : text.substr(colon + 1);
  auto bytes = [](auto value) { return std::string(reinterpret_cast<const char *>(&value), sizeof value); };
  if (kind == "i32" || kind == "u32") return bytes(uint32_t(integer(rest, 32, kind == "i32")));
  if (kind == "u64" || kind == "i64") return bytes(integer(rest, 64, kind == "i64"));
  if (kind == "f32") return bytes(real(rest, std::strtof));
  if (kind == "f64") return bytes(real(rest, std::strtod));
  if (kind == "raw") return fromHex(rest);
  size_t second = rest.find(':');
  std::string first = rest.substr(0, second), out = second == rest.npos ? "" : rest.substr(second + 1);
  if (kind != "in" && kind != "inout" && kind != "out") refuse("no argument of the kernel: " + text + "\n" + kUsage);
  std::string data = kind == "out" ? "" : contents(kind == "in" ? rest : first);
  uint64_t size = kind == "out" ? number(first, kDeviceBytes) : data.size();
  uint64_t address = size ? memory.allocate(size) : 0; // as cudaMalloc: no bytes are at null
  if (size && !address) refuse("no room for a buffer of " + bytesText(size) + ": " + text);
  if (!data.empty()) memory.write(address, data.data(), data.size());
  if (!out.empty()) results.push_back({address, size, out});
  return bytes(address);
}

std::string parameters(const Invocation &v, const KernelInfo &kernel, Memory &memory, std::vector<Result> &results) {
  if (v.arguments.size() != kernel.params.size())
    refuse(v.kernel + " has " + std::to_string(kernel.params.size()) + " parameters, given are " +
           std::to_string(v.arguments.size()));
  std::string block(kernel.paramBytes, '\0');
  for (size_t i = 0; i < v.arguments.size(); ++i) {
    std::string bytes = argument(v.arguments[i], memory, results);
    if (bytes.size() != kernel.params[i].size)
      refuse("parameter " + std::to_string(i) + " has " + std::to_string(kernel.params[i].size) + " bytes, given are " +
             std::to_string(bytes.size()) + ": " + v.arguments[i]);
    block.replace(kernel.params[i].offset, bytes.size(), bytes);
  }
  return block;
}

void printCounters(const char *where, const Counters &c) {
  std::printf("%-24s %10llu %10llu %8llu %8llu %8llu %8llu\n", where, (unsigned long long)c.instructions,
              (unsigned long long)c.lanes, (unsigned long long)c.sectors, (unsigned long long)c.idealSectors,
              (unsigned long long)c.wavefronts, (unsigned long long)c.idealWavefronts);
}

int report(const Invocation &v, const Outcome &outcome) {
  std::fwrite(outcome.printed.data(), 1, outcome.printed.size(), stdout);
  for (const Finding &f : outcome.findings) std::printf("%s\n", f.text().c_str());
  if (v.counters) {
    std::printf("%-24s %10s %10s %8s %8s %8s %8s\n", "line", "instr", "lanes", "sectors", "ideal", "waves", "ideal");
    for (const LineCounters &l : outcome.lines) {
      std::string where = std::to_string(l.ptxLine);
      if (size_t slash = l.file.rfind('/'); !l.file.empty())
        where += " " + l.file.substr(slash == l.file.npos ? 0 : slash + 1) + ":" + std::to_string(l.line);
      printCounters(where.c_str(), l.counters);
    }
    printCounters("all", outcome.counters);
  }
  return outcome.findings.empty() ? 0 : 1;
}

/// The kernels, and what of the file cannot be executed.
int list(const Module &module, const LoadedModule &loaded) {
  for (const KernelInfo &k : module.kernels()) std::printf("%s\n", k.name.c_str());
  std::vector<Finding> unsupported = loaded.notSupported();
  for (const Finding &f : unsupported) std::printf("%s\n", f.text().c_str());
  return unsupported.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  Invocation v = parseCommand(argc, argv);
  std::string error;
  std::shared_ptr<const Module> module = Module::parse(contents(v.file), &error);
  if (!module) refuse(v.file + ", " + error);
  const KernelInfo *kernel = module->kernel(v.kernel);
  if (!kernel && !v.kernel.empty()) refuse("no kernel " + v.kernel + " in " + v.file);
  Memory memory(kDeviceBytes);
  std::unique_ptr<LoadedModule> loaded = LoadedModule::load(module, memory, &error);
  if (!loaded) refuse(error);
  if (!kernel) return list(*module, *loaded);
  std::vector<Result> results;
  std::string params = parameters(v, *kernel, memory, results);
  v.launch.module = loaded.get(), v.launch.kernel = v.kernel, v.launch.params = params.data();
  Outcome outcome = run(memory, v.launch);
  for (const Result &r : results) {
    std::string bytes(r.bytes, '\0');
    if (r.bytes) memory.read(bytes.data(), r.address, r.bytes);
    if (!(std::ofstream(r.path, std::ios::binary) << bytes)) refuse("cannot write " + r.path);
  }
  return report(v, outcome);
}
