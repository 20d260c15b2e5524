// One launch: limits, blocks in their order, what was counted and touched.
// SPDX-License-Identifier: Apache-2.0
#include "Machine.h"
#include "Block.h"
#include "Scheduler.h"

#include <algorithm>
#include <atomic>
#include <numeric>

namespace opc::gpusim {

namespace {

constexpr uint64_t kDefaultLimit = 50'000'000;

std::string triple(const Dim3 &d) {
  return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}

/// What is wrong with the launch itself; 0: nothing.
int limits(const Launch &l, const KernelInfo &k, std::string *why) {
  uint64_t threads = uint64_t(l.block.x) * l.block.y * l.block.z;
  if (threads == 0 || uint64_t(l.grid.x) * l.grid.y * l.grid.z == 0)
    return *why = "grid " + triple(l.grid) + " and block " + triple(l.block) + " have no thread", kCudaInvalidValue;
  if (threads > 1024 || l.block.x > 1024 || l.block.y > 1024 || l.block.z > 64)
    return *why = "a block " + triple(l.block) + " has " + std::to_string(threads) + " threads, at most 1024",
           kCudaInvalidValue;
  if (l.grid.x > 0x7fffffffu || l.grid.y > 65535 || l.grid.z > 65535)
    return *why = "the grid " + triple(l.grid) + " is larger than (2147483647,65535,65535)", kCudaInvalidValue;
  if (uint64_t(l.grid.x) * l.grid.y * l.grid.z > (uint64_t(1) << 31))
    return *why = "so many blocks are not simulated", kCudaNotSupported;
  if (k.maxThreads && threads > k.maxThreads)
    return *why = "a block has " + std::to_string(threads) + " threads, the kernel was compiled for " +
                  std::to_string(k.maxThreads),
           kCudaLaunchOutOfResources;
  if (k.requiredBlock[0] &&
      (l.block.x != k.requiredBlock[0] || l.block.y != k.requiredBlock[1] || l.block.z != k.requiredBlock[2]))
    return *why = "the block " + triple(l.block) + " is not the one that the kernel requires", kCudaInvalidValue;
  if (uint64_t(k.staticShared) + l.dynamicShared > l.sharedLimit)
    return *why = "a block has " + std::to_string(k.staticShared) + " + " + std::to_string(l.dynamicShared) +
                  " bytes of shared memory, at most " + std::to_string(l.sharedLimit),
           kCudaInvalidValue;
  if (k.paramBytes && !l.params) return *why = "the kernel has parameters, the launch none", kCudaInvalidValue;
  return 0;
}

void append(std::vector<AccessSet::Interval> &to, uint64_t address, uint32_t mask) {
  if (mask == 0) return;
  if (mask == 15 && !to.empty() && to.back().end == address) {
    to.back().end += 4;
    return;
  }
  for (uint32_t i = 0; i < 4; ++i) {
    if (!(mask >> i & 1)) continue;
    if (!to.empty() && to.back().end == address + i)
      ++to.back().end;
    else
      to.push_back({address + i, address + i + 1});
  }
}

void collectAccesses(Run &run) {
  std::vector<const RangeState *> ranges;
  for (auto &[base, state] : run.ranges)
    if (state->cells) ranges.push_back(state.get());
  std::sort(ranges.begin(), ranges.end(), [](auto *a, auto *b) { return a->range->base < b->range->base; });
  AccessSet &set = run.outcome.accesses;
  for (const RangeState *r : ranges) {
    uint64_t cells = (r->range->bytes + 3) / 4;
    for (uint64_t page = 0; page < r->touched.size(); ++page) {
      if (!r->touched[page]) continue;
      for (uint64_t i = page * 1024; i < std::min(cells, (page + 1) * 1024); ++i) {
        const Cell &c = r->cells[i];
        if (c.generation != run.generation) continue;
        append(set.reads, r->range->base + i * 4, c.read);
        append(set.writes, r->range->base + i * 4, c.wrote);
        append(set.atomics, r->range->base + i * 4, c.atomic);
      }
    }
  }
}

Counters toCounters(const LineCount &l) {
  Counters c;
  c.instructions = l.instructions, c.lanes = l.lanes;
  c.requests = l.requests, c.sectors = l.sectors, c.idealSectors = l.idealSectors;
  c.sharedRequests = l.sharedRequests, c.wavefronts = l.wavefronts, c.idealWavefronts = l.idealWavefronts;
  c.bytesRead = l.bytesRead, c.bytesWritten = l.bytesWritten;
  return c;
}

void collectCounters(Run &run) {
  std::map<uint32_t, LineCounters> lines;
  const Module &module = run.launch.module->module();
  for (size_t n = 0; n < run.counts.size(); ++n)
    for (size_t i = 0; i < run.counts[n].size(); ++i) {
      const LineCount &count = run.counts[n][i];
      if (count.instructions == 0) continue;
      const Instruction &at = module.functions()[n]->instructions[i];
      LineCounters &line = lines[at.line];
      line.ptxLine = at.line, line.file = module.file(at.file), line.line = at.sourceLine;
      Counters c = toCounters(count);
      line.counters.add(c);
      run.outcome.counters.add(c);
    }
  for (auto &[number, line] : lines) run.outcome.lines.push_back(std::move(line));
}

void runGrid(Run &run) {
  const Launch &l = run.launch;
  Block block;
  block.threads = l.block.x * l.block.y * l.block.z;
  block.shared.resize(run.sharedBytes), block.sharedWritten.resize(run.sharedBytes);
  block.sharedCells.resize((run.sharedBytes + 3) / 4);
  for (uint32_t n = 0; n < (block.threads + 31) / 32; ++n) {
    block.warps.push_back(std::make_unique<Warp>());
    block.warps.back()->number = n, block.warps.back()->block = &block;
  }
  uint64_t blocks = uint64_t(l.grid.x) * l.grid.y * l.grid.z;
  std::vector<uint32_t> order;
  if (l.seed) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), run.random);
  }
  for (uint64_t n = 0; n < blocks && !run.stop; ++n) {
    block.linear = l.seed ? order[n] : uint32_t(n);
    block.index = {block.linear % l.grid.x, block.linear / l.grid.x % l.grid.y, block.linear / l.grid.x / l.grid.y};
    runBlock(run, block);
  }
}

} // namespace

std::string Finding::text() const {
  std::string at = kind + " in " + kernel;
  if (ptxLine) {
    at += ", PTX line " + std::to_string(ptxLine);
    if (!file.empty()) at += " (" + file + ":" + std::to_string(line) + ")";
    at += ", block " + triple(block) + ", thread " + triple(thread);
  }
  return at + ": " + message;
}

void Counters::add(const Counters &o) {
  instructions += o.instructions, lanes += o.lanes;
  requests += o.requests, sectors += o.sectors, idealSectors += o.idealSectors;
  sharedRequests += o.sharedRequests, wavefronts += o.wavefronts, idealWavefronts += o.idealWavefronts;
  bytesRead += o.bytesRead, bytesWritten += o.bytesWritten;
}

void Run::find(const Block &block, const Warp &warp, int lane, const Code &code, const Program &program,
               const char *kind, int cudaError, std::string message, bool fatal) {
  stop |= fatal;
  if (!reported.emplace(kind, code.line).second) {
    if (fatal)
      for (Finding &known : outcome.findings) known.ends |= known.kind == kind && known.ptxLine == code.line;
    return;
  }
  const Instruction &at = program.function->instructions[code.index];
  Finding f;
  f.cudaError = cudaError, f.kind = kind, f.message = std::move(message), f.kernel = kernel->name;
  f.ptxLine = code.line, f.file = launch.module->module().file(at.file), f.line = at.sourceLine;
  f.block = block.index, f.thread = block.thread(launch.block, warp.number * 32 + uint32_t(lane));
  stop |= outcome.findings.size() + 1 >= launch.findingLimit;
  f.ends = stop;
  outcome.findings.push_back(std::move(f));
}

RangeState *Run::range(uint64_t address) {
  const Memory::Range *r = memory.find(address);
  if (!r) return nullptr;
  std::unique_ptr<RangeState> &state = ranges[r->base];
  if (state) return state.get();
  state = std::make_unique<RangeState>();
  state->range = r;
  state->constant = programs->constants.count(r->base) != 0;
  if (!state->constant) {
    state->cells = static_cast<Cell *>(memory.shadow(r->base));
    state->touched.resize((r->bytes >> 12) + 1);
  }
  return state.get();
}

LineCount *Run::countsOf(const Program &program) {
  auto &c = counts[program.number];
  if (c.empty()) c.resize(program.code.size()), recent[program.number].resize(program.code.size());
  return c.data();
}

Outcome run(Memory &memory, const Launch &launch) {
  static std::atomic<uint32_t> generations{0};
  Outcome outcome;
  const KernelInfo *kernel = launch.module ? launch.module->module().kernel(launch.kernel) : nullptr;
  std::string why = "there is no kernel of that name";
  int error = kernel ? limits(launch, *kernel, &why) : kCudaNotFound;
  if (error) {
    Finding f;
    f.cudaError = error, f.kind = "launch", f.kernel = launch.kernel, f.message = why, f.ends = true;
    outcome.findings.push_back(f);
    outcome.cudaError = error;
    return outcome;
  }
  Run run(memory, launch, outcome);
  run.kernel = kernel;
  run.programs = &launch.module->programs();
  run.generation = ++generations;
  const Program &program = *run.programs->program(run.programs->numbers.at(kernel->name));
  run.sharedBytes = program.dynamicBase + launch.dynamicShared;
  run.limit = launch.instructionLimit ? launch.instructionLimit : kDefaultLimit;
  run.counts.resize(run.programs->programs.size());
  run.recent.resize(run.programs->programs.size());
  runGrid(run);
  collectCounters(run);
  collectAccesses(run);
  if (!outcome.findings.empty()) {
    outcome.cudaError = outcome.findings.front().cudaError;
    for (const Finding &f : outcome.findings) // what ended the launch is what a driver would say
      if (f.cudaError != kCudaLaunchFailed) outcome.cudaError = f.cudaError;
  }
  return outcome;
}

} // namespace opc::gpusim
