# What a command takes: its processor time and the peak of its memory.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile

# From a process that has little itself: a child inherits its parent's peak.
MEASURE = ("import os,sys; p=os.spawnv(os.P_NOWAIT,sys.argv[2],sys.argv[2:]); _,s,u=os.wait4(p,0); "
           "print(u.ru_maxrss,u.ru_utime+u.ru_stime,file=open(sys.argv[1],'w')); sys.exit(s>>8 if s&127==0 else 70)")
SLACK = 4 << 20  # of an allocator
# A sanitized program takes several times as long.
SECONDS = 1 if not os.environ.get("OPC_SANITIZE") else 20


def run(command, folder, timeout=120):
    """The ended process, its seconds and its bytes. Its own text is in UTF-8 where it can be."""
    with tempfile.NamedTemporaryFile(prefix="measured") as f:
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, f.name, *command], capture_output=True, text=True, cwd=folder, timeout=timeout,
                              errors="replace")
        kib, seconds = f.read().split()
    return done, float(seconds), int(kib) * 1024


def is_modest(test, size, base, seconds, peak, what):
    """A hostile file of `size` bytes takes a second at most, and no more memory than a valid one and twice the file."""
    test.assertLess(seconds, SECONDS, f"{what}: processor time")
    if not os.environ.get("OPC_SANITIZE"):
        test.assertLess(peak, base + 2 * size + SLACK, f"{what}: {peak - base} bytes for a file of {size}")
