// The door to the fuzz targets. With OPC_FUZZ: libFuzzer, `opc_fuzz TARGET [libFuzzer's arguments]`. Without: a plain
// program that replays files, `opc_fuzz_replay TARGET [--mutations N [--first SEED]] FILE_OR_FOLDER...`, and, when
// asked, N seeded mutations of each; an input that crashes or takes over ten seconds (--timeout S) is written to
// ./fuzz-found-TARGET.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

using namespace opc;
using namespace opc::fuzz;

namespace {

const FuzzTarget *chosen = nullptr;

int usage() {
  std::fprintf(stderr, "the first argument is a target:");
  for (const FuzzTarget &t : fuzzTargets()) std::fprintf(stderr, " %s", t.name);
  std::fprintf(stderr, "\n");
  return 2;
}

} // namespace

/// MLIR's archives are not instrumented: its arenas, whose inline parts are compiled here, may not poison what the
/// archives then hand out. Unused without AddressSanitizer.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

#ifdef OPC_FUZZ_WITH_LIBFUZZER

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  chosen = *argc > 1 ? findFuzzTarget((*argv)[1]) : nullptr;
  if (!chosen) std::exit(usage());
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  (void)test::registry();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  chosen->run({reinterpret_cast<const char *>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
  // Raw bytes a quarter of the time: the parser itself is under test, too.
  if (chosen->mutate && seed % 4 != 0)
    if (size_t n = chosen->mutate(data, size, max, seed)) return n;
  return LLVMFuzzerMutate(data, size, max);
}

#else

#include <fcntl.h>
#include <unistd.h>

namespace {

unsigned secondsPerInput = 10;
constexpr size_t kMaxMutant = 1 << 16;
std::string foundPath;
std::string current; // what is being run, for the signal handler

extern "C" void saveCurrent(int number) {
  const int fd = ::open(foundPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && ::write(fd, current.data(), current.size()) >= 0) ::close(fd);
  const char text[] = "fuzz: the input is in the file fuzz-found-TARGET\n";
  if (::write(2, text, sizeof text - 1) < 0) _exit(1);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

/// One change of bytes: a bit, a byte, a number at its end, a piece removed, repeated or taken from elsewhere.
void mutateBytes(std::string *bytes, std::mt19937_64 &random) {
  const auto below = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  if (bytes->empty()) bytes->push_back('x');
  const size_t at = below(bytes->size()), length = 1 + below(std::min<size_t>(bytes->size() - at, 16));
  switch (below(7)) {
  case 0: (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << below(8))); return;
  case 1: (*bytes)[at] = static_cast<char>(random()); return;
  case 2: bytes->erase(at, length); return;
  case 3: bytes->insert(below(bytes->size()), bytes->substr(at, length)); return;
  case 4: { // an interesting little-endian number
    static const int64_t numbers[] = {0,     1,         -1,        127,       128,       255,      256,
                                      65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 40};
    const int64_t n = numbers[below(std::size(numbers))];
    const size_t width = std::min<size_t>(size_t{1} << below(4), bytes->size() - at);
    std::memcpy(bytes->data() + at, &n, width);
    return;
  }
  case 5: { // a decimal number, for texts
    static const char *const numbers[] = {"0",     "-1", "2147483647", "9223372036854775807", "-9223372036854775808",
                                          "1e999", "nan"};
    size_t end = at;
    while (end < bytes->size() && std::isdigit(static_cast<unsigned char>((*bytes)[end]))) ++end;
    bytes->replace(at, end - at, numbers[below(std::size(numbers))]);
    return;
  }
  default: bytes->resize(at + 1);
  }
}

std::string mutant(const FuzzTarget &target, const std::string &bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string result = bytes;
  if (target.mutate && random() % 4 != 0) {
    result.resize(kMaxMutant);
    const size_t n = target.mutate(reinterpret_cast<uint8_t *>(result.data()), bytes.size(), result.size(), seed);
    result.resize(n);
    if (n) return result;
    result = bytes;
  }
  for (uint64_t n = 1 + random() % 4; n > 0; --n) mutateBytes(&result, random);
  return result;
}

void runOne(std::string bytes) {
  current = std::move(bytes);
  ::alarm(secondsPerInput);
  chosen->run(current);
  ::alarm(0);
}

} // namespace

int main(int argc, char **argv) {
  chosen = argc > 2 ? findFuzzTarget(argv[1]) : nullptr;
  if (!chosen) return usage();
  foundPath = std::string("fuzz-found-") + chosen->name;
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM}) std::signal(number, saveCurrent);
  std::vector<std::filesystem::path> files;
  unsigned long mutations = 0, firstSeed = 0;
  for (int i = 2; i < argc; ++i) {
    if (i + 1 < argc && std::string(argv[i]) == "--mutations") {
      mutations = std::strtoul(argv[++i], nullptr, 10);
      continue;
    }
    if (i + 1 < argc && std::string(argv[i]) == "--timeout") {
      secondsPerInput = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
      continue;
    }
    if (i + 1 < argc && std::string(argv[i]) == "--first") {
      firstSeed = std::strtoul(argv[++i], nullptr, 10);
      continue;
    }
    std::error_code error;
    if (!std::filesystem::is_directory(argv[i], error)) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto &path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::fprintf(stderr, "%s cannot be read\n", path.c_str()), 2;
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s %s (%zu bytes)\n", chosen->name, path.filename().c_str(), bytes.size());
    std::fflush(stdout); // the last line names the input that crashes
    runOne(bytes);
    for (unsigned long n = 0; n < mutations; ++n) runOne(mutant(*chosen, bytes, firstSeed + n + 1));
  }
  std::printf("%s: %zu inputs, %lu mutations of each\n", chosen->name, files.size(), mutations);
  return files.empty() ? 1 : 0;
}

#endif
