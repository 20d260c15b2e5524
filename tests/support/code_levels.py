"""Levels of machine code on this processor."""
# SPDX-License-Identifier: Apache-2.0

with open("/proc/cpuinfo", encoding="utf-8") as f:
    FLAGS = set(next((line.split(":")[1].split() for line in f if line.startswith("flags")), []))
NEEDS = {"v3": {"avx2", "fma", "f16c", "bmi1", "bmi2"}, "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}
# Those whose code runs here.
LEVELS = [level for level, flags in NEEDS.items() if flags <= FLAGS]
# What OPC_CODE_LEVEL can say besides none: without AVX-512, v4 says what v3 says (kernels/region/CodeLevel.h).
SETTINGS = ["v3"] + (["v4"] if "v4" in LEVELS else [])
