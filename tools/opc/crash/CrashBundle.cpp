// The folder that an internal error leaves behind. What is below "for handlers" is called where nothing may be relied
// on: it takes no memory and no locks.
// SPDX-License-Identifier: Apache-2.0
#include "CrashBundle.h"

#include "CommandLine.h"
#include "CompilationPoint.h"
#include "CrashRecord.h"
#include "CrashText.h"
#include "ExitCodes.h"
#include "JsonOutput.h"
#include "PluginCode.h"
#include "PrintableText.h"
#include "Program.h"
#include "Sha256.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <linux/fs.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opc::cli {

namespace {

constexpr size_t kHashDigits = 12;
constexpr unsigned kSecondsForIr = 20;
constexpr size_t kStackBytes = 8 << 20; // the IR is compiled anew on it
const char *const kBundleFile = "bundle.json";
const char *const kIrFile = "failing.mlir";

std::atomic<bool> reported = false;

// --- for handlers ----------------------------------------------------------------------------------------------------

class File {
public:
  File(int folder, const char *name)
      : file_(::openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) {
    if (file_ < 0) error_ = errno;
  }
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  File &add(std::string_view text) {
    while (!text.empty() && !error_) {
      const ssize_t n = ::write(file_, text.data(), text.size());
      if (n > 0)
        text.remove_prefix(static_cast<size_t>(n));
      else if (n == 0 || errno != EINTR)
        error_ = n == 0 ? EIO : errno;
    }
    return *this;
  }
  File &number(uint64_t value) {
    char digits[24];
    char *at = digits + sizeof digits;
    do *--at = static_cast<char>('0' + value % 10);
    while (value /= 10);
    return add({at, static_cast<size_t>(digits + sizeof digits - at)});
  }
  File &quoted(const char *word) { return add("\"").add(word).add("\""); } // of letters that JSON takes as they are
  int handle() const { return file_; }
  int error() const { return error_; }

private:
  int file_, error_ = 0;
};

/// A file as it is in memory; empty when it cannot be read.
class Mapped {
public:
  explicit Mapped(int file) {
    struct stat about{};
    if (file < 0 || ::fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size <= 0) return;
    void *at = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (at != MAP_FAILED) view_ = {static_cast<const char *>(at), static_cast<size_t>(about.st_size)};
  }
  ~Mapped() {
    if (!view_.empty()) ::munmap(const_cast<char *>(view_.data()), view_.size());
  }
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;
  std::string_view view() const { return view_; }

private:
  std::string_view view_;
};

void digestOfFile(const char *path, char (&digits)[65]) {
  const int file = ::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const Mapped mapped(file);
  digits[0] = 0;
  if (!mapped.view().empty()) sha256Digits(mapped.view(), digits);
  if (file >= 0) ::close(file);
}

const char *signalName(int signal) {
  switch (signal) {
  case SIGSEGV: return "SIGSEGV";
  case SIGABRT: return "SIGABRT";
  case SIGBUS: return "SIGBUS";
  case SIGFPE: return "SIGFPE";
  case SIGILL: return "SIGILL";
  default: return "";
  }
}

void addGraph(File &file, const GraphRecord &graph) {
  char digits[65];
  if (graph.bytes.size() == graph.size)
    sha256Digits(graph.bytes, digits);
  else
    digestOfFile(graph.path.c_str(), digits);
  file.add(",\n\"graph\":{\"path\":").add(graph.json).add(",\"file\":");
  file.quoted(graph.bytes.size() == graph.size ? graph.file : "").add(",\"bytes\":").number(graph.size);
  file.add(",\"sha256\":").quoted(digits).add("}");
}

int writeJson(int folder, const Crash &crash, const CommandRecord &command, const GraphRecord *graph) {
  File file(folder, kBundleFile);
  file.add("{\n\"opc_crash\":1,\n\"version\":").add(command.version);
  file.add(",\n\"command\":").add(graph ? graph->command : command.command);
  if (graph) addGraph(file, *graph);
  file.add(",\n\"plugins\":[");
  for (size_t i = 0; i < command.plugins.size(); ++i) {
    char digits[65];
    digestOfFile(command.plugins[i].path.c_str(), digits);
    file.add(i ? ",{\"path\":" : "{\"path\":").add(command.plugins[i].json).add(",\"sha256\":").quoted(digits).add("}");
  }
  file.add("],\n\"settings\":").add(command.settings).add(",\n\"environment\":").add(command.environment);
  file.add(",\n\"failure\":{\"exit_code\":").number(static_cast<uint64_t>(crash.exitCode));
  file.add(",\"code\":").quoted(crash.code).add(",\"signal\":").quoted(signalName(crash.signal));
  const CompilationPoint at = compilationPoint();
  file.add(",\"phase\":").quoted(at.phase ? at.phase : "").add(",\"pass\":").quoted(at.pass ? at.pass : "");
  if (*crash.message) file.add(",\"message\":").add(crash.message);
  return file.add("}\n}\n").error();
}

/// The IR before the phase: compiled in a process of its own, which may crash again or hang.
void forkForIr(int folder) {
  const pid_t child = ::_Fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
      struct sigaction standard{};
      standard.sa_handler = SIG_DFL;
      (void)sigaction(signal, &standard, nullptr);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, nullptr);
    (void)::alarm(kSecondsForIr);
    int error = 1;
    if (const std::string ir = irBeforePoint(); !ir.empty()) error = File(folder, kIrFile).add(ir).error();
    ::_exit(error ? 1 : 0);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || status != 0) (void)::unlinkat(folder, kIrFile, 0);
}

void removeFolder(int where, const char *name, int folder) {
  for (const char *file : {kBundleFile, "graph.pbtxt", "graph.pb", "graph.plan", kIrFile})
    (void)::unlinkat(folder, file, 0);
  (void)::unlinkat(where, name, AT_REMOVEDIR);
}

/// Whether `name` is a folder whose bundle.json has these bytes.
bool hasBundle(int where, const char *name, std::string_view json) {
  const int folder = ::openat(where, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const int file = folder < 0 ? -1 : ::openat(folder, kBundleFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  const Mapped there(file);
  const bool same = !there.view().empty() && there.view() == json;
  if (file >= 0) ::close(file);
  if (folder >= 0) ::close(folder);
  return same;
}

void append(char *&at, const char *end, std::string_view text) {
  for (const char c : text)
    if (at + 1 < end) *at++ = c;
  *at = 0;
}

/// Gives the folder its name: of its contents, with a number when others have it. 0, or an error.
int settle(int where, const char *temporary, int folder, char (&name)[64]) {
  const int file = ::openat(folder, kBundleFile, O_RDONLY | O_CLOEXEC);
  const Mapped json(file);
  char digits[65];
  sha256Digits(json.view(), digits);
  if (file >= 0) ::close(file);
  for (char number = '1'; number <= '9'; ++number) {
    char *at = name;
    append(at, name + sizeof name, "opc-crash-");
    append(at, name + sizeof name, {digits, kHashDigits});
    const char suffix[] = {'-', number};
    if (number > '1') append(at, name + sizeof name, {suffix, 2});
    if (::syscall(SYS_renameat2, where, temporary, where, name, RENAME_NOREPLACE) == 0) return 0;
    int error = errno;
    if (error == EINVAL || error == ENOSYS) { // a file system without it: an empty folder would be replaced, no other
      if (::renameat(where, temporary, where, name) == 0) return 0;
      error = errno;
    }
    if (error != EEXIST && error != ENOTEMPTY && error != ENOTDIR) return error;
    if (!hasBundle(where, name, json.view())) continue;
    removeFolder(where, temporary, folder); // it happened before
    return 0;
  }
  return EEXIST;
}

int writeInto(int where, const Crash &crash, const std::string *ir, char (&name)[64]) {
  const CommandRecord &command = *notedCommand();
  const GraphRecord *graph = notedGraph();
  char temporary[64];
  char *at = temporary;
  append(at, temporary + sizeof temporary, ".opc-crash-");
  for (auto pid = static_cast<unsigned>(::gettid()); pid; pid /= 10) {
    const char digit = static_cast<char>('0' + pid % 10);
    append(at, temporary + sizeof temporary, {&digit, 1});
  }
  if (::mkdirat(where, temporary, 0700) != 0) return errno;
  const int folder = ::openat(where, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int error = folder < 0 ? errno : writeJson(folder, crash, command, graph);
  if (!error && graph && graph->size && graph->bytes.size() == graph->size)
    error = File(folder, graph->file).add(graph->bytes).error();
  if (!error && ir && !ir->empty()) error = File(folder, kIrFile).add(*ir).error();
  if (!error && !ir && compilationPoint().phase) forkForIr(folder);
  if (!error) error = settle(where, temporary, folder, name);
  if (error) removeFolder(where, temporary, folder);
  if (folder >= 0) ::close(folder);
  return error;
}

/// What a bundle's name is said as.
CrashPart partOfFolder() { return notedCommand()->isReplayed ? CrashPart::kReplay : CrashPart::kFolder; }

/// One crash at a time; a handler that is interrupted by a second crash of its own thread must not wait for itself.
std::atomic<pid_t> writing = 0;

bool beginWriting() {
  const pid_t self = ::gettid();
  for (;;) {
    pid_t nobody = 0;
    if (writing.compare_exchange_strong(nobody, self)) return true;
    if (nobody == self) return false;
    (void)::usleep(1000);
  }
}

void reportSignal(int signal, bool isKernel) {
  if (!notedCommand()) return;
  Crash crash;
  crash.signal = signal;
  crash.code = isKernel ? "OPC0605" : "OPC0999";
  crash.exitCode = isKernel ? 128 + signal : kExitInternal;
  bool hasNamed = false;
  if (!isKernel) {
    const CompilationPoint at = compilationPoint();
    if (at.phase) say(" in phase "), say(at.phase);
    if (at.pass) say(", pass "), say(at.pass);
    hasNamed = sayPluginCode(true);
    if (!hasNamed && !notedCommand()->plugins.empty()) say("; it may be a plugin's");
    endParts(); // what follows takes its time
  }
  const BundlePlace place = writeCrashBundle(crash, nullptr);
  if (!isKernel) {
    beginPart(CrashPart::kHelp);
    say(hasNamed ? "a debugger shows where: gdb --args opc ...; where it is none of the plugin, please report it with "
                 : "this is a bug; please report it with ");
    say(*place.path ? "the folder that the next line names" : "the command and its files");
  }
  if (place.error) {
    beginPart(CrashPart::kNote);
    say("no crash folder could be made: ");
    say(strerrordesc_np(place.error));
  }
  if (*place.path) beginPart(partOfFolder()), say(place.path);
  endParts();
}

} // namespace

BundlePlace writeCrashBundle(const Crash &crash, const std::string *ir) noexcept {
  BundlePlace place;
  const CommandRecord *command = notedCommand();
  if (!command || command->folders.empty() || !beginWriting()) return place;
  for (size_t i = 0; i < command->folders.size() && !*place.path; ++i) {
    const std::string &folder = command->folders[i];
    const bool isStart = i == 0 && command->isStartFolder;
    const int where =
        isStart ? startFolder() : ::openat(startFolder(), folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    char name[64] = "";
    place.error = where < 0 ? errno : writeInto(where, crash, ir, name);
    if (!place.error) {
      char *at = place.path;
      if (!isStart) append(at, place.path + sizeof place.path, folder);
      if (!isStart) append(at, place.path + sizeof place.path, "/");
      append(at, place.path + sizeof place.path, name);
    }
    if (where >= 0 && !isStart) ::close(where);
  }
  if (*place.path) place.error = 0; // of a folder before it
  writing = 0;
  return place;
}

// --- for everybody ---------------------------------------------------------------------------------------------------

static std::string folderOfError(const std::string &code, const std::string &message) {
  reported = true;
  const std::string json = Json(message).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string ir = irBeforePoint();
  Crash crash;
  crash.code = code.c_str();
  crash.message = json.c_str();
  const BundlePlace place = writeCrashBundle(crash, &ir);
  return *place.path ? shellQuoted(place.path) : "";
}

std::string bundleOfError(const std::string &code, const std::string &message) {
  const std::string folder = folderOfError(code, message);
  return folder.empty() ? "" : headOf(partOfFolder()) + folder;
}

std::string reportAdvice() {
  const std::string bug = "this is a bug in opc; please report it with ", files = "the command and its files";
  const CommandRecord *command = notedCommand();
  if (!command || command->folders.empty()) return bug + files;
  if (!command->isStartFolder) {
    const std::string &folder = command->folders[0];
    const int chosen = ::openat(startFolder(), folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const bool isUsable = chosen >= 0 && ::faccessat(chosen, ".", W_OK | X_OK, 0) == 0;
    const int error = errno;
    if (chosen >= 0) ::close(chosen);
    if (!isUsable)
      return bug + files + "; OPC_CRASH_DIR names " + folder +
             ", where no crash folder can be made: " + std::strerror(error);
  }
  return bug + "the folder that the last line names";
}

bool hasReportedCrash() { return reported; }

std::string crashPlace() {
  const CompilationPoint at = compilationPoint();
  return (at.phase ? std::string(" in phase ") + at.phase : "") + (at.pass ? std::string(", pass ") + at.pass : "");
}

CrashStack::CrashStack()
    : memory_(
          ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
  if (memory_ == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory_;
  stack.ss_size = kStackBytes;
  (void)::sigaltstack(&stack, nullptr);
}

CrashStack::~CrashStack() {
  if (memory_ == MAP_FAILED) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  (void)::sigaltstack(&none, nullptr);
  (void)::munmap(memory_, kStackBytes);
}

/// Of a thread that nobody has guarded.
[[noreturn]] static void endOnStrayException(const std::string &what) {
  const std::string rule = runningRule();
  const std::string message =
      "internal error" + crashPlace() + (rule.empty() ? "" : "; it may be a plugin's: " + rule) + ": " + what;
  beginPart(CrashPart::kError, "OPC0999");
  say(printableName(message).c_str());
  if (const std::string folder = folderOfError("OPC0999", message); !folder.empty()) {
    beginPart(partOfFolder());
    say(folder.c_str());
  }
  endParts();
  ::_exit(kExitInternal);
}

void installCrashReports() {
  onStrayException(endOnStrayException);
  noteStart();
  static CrashStack stack;
  onCrash(reportSignal);
}

} // namespace opc::cli
