# What a command takes: its processor time and the peak of its memory.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import time

# From a process that has little itself: a child inherits its parent's peak.
MEASURE = ("import os,sys; p=os.spawnv(os.P_NOWAIT,sys.argv[2],sys.argv[2:]); _,s,u=os.wait4(p,0); "
           "print(u.ru_maxrss,u.ru_utime+u.ru_stime,file=open(sys.argv[1],'w')); sys.exit(s>>8 if s&127==0 else 70)")
SLACK = 4 << 20  # of an allocator
# A sanitized program takes several times as long.
SECONDS = 1 if not os.environ.get("OPC_SANITIZE") else 20
PACE = 0.2  # seconds of pace() on the machine of the limits, busy with two jobs


def pace():
    """Processor seconds of fixed work, which is names in a table: how fast this machine is at this moment."""
    started, table = time.process_time(), {}
    for k in range(200000):
        table[f"n{k}"] = [f"n{k}", k]
    sum(len(table[name][0]) for name in table)
    return time.process_time() - started


def run(command, folder, timeout=120):
    """The ended process, its seconds and its bytes. Its own text is in UTF-8 where it can be.

    Seconds over the limit are those of the machine of the limits: where others use the cores, fixed work takes several times as long, too.
    """
    with tempfile.NamedTemporaryFile(prefix="measured") as f:
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, f.name, *command], capture_output=True, text=True, cwd=folder, timeout=timeout,
                              errors="replace")
        kib, seconds = f.read().split()
    seconds = float(seconds)
    if seconds > SECONDS:
        seconds /= max(1, pace() / PACE)
    return done, seconds, int(kib) * 1024


def is_modest(test, size, base, seconds, peak, what):
    """A hostile file of `size` bytes takes a second at most, and no more memory than a valid one and twice the file."""
    test.assertLess(seconds, SECONDS, f"{what}: processor time")
    if not os.environ.get("OPC_SANITIZE"):
        test.assertLess(peak, base + 2 * size + SLACK, f"{what}: {peak - base} bytes for a file of {size}")
