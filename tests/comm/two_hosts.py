# A job on two hosts that are network namespaces of this machine: needs root and ip; otherwise says why it is skipped.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

JOB = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc_mpi_job")
TAG = f"opc{os.getpid() % 100000}"
BRIDGE, NODES = TAG + "b", [TAG + "n0", TAG + "n1"]
NETWORK = f"10.{77 + os.getpid() % 100}.0"


def skip(why):
    raise unittest.SkipTest(why)


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def remove():
    for node in NODES:
        run("ip", "netns", "del", node, check=False)
    run("ip", "link", "del", BRIDGE, check=False)


if not shutil.which("mpirun") or not os.path.exists(JOB):
    skip("needs mpirun and a build with MPI")
if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
    skip("needs root, ip and unshare")
try:
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    for i, node in enumerate(NODES):
        run("ip", "netns", "add", node)
        run("ip", "link", "add", node, "type", "veth", "peer", "name", "eth0", "netns", node)
        run("ip", "link", "set", node, "master", BRIDGE, "up")
        run("ip", "-n", node, "addr", "add", f"{NETWORK}.{10 + i}/24", "dev", "eth0")
        run("ip", "-n", node, "link", "set", "eth0", "up")
        run("ip", "-n", node, "link", "set", "lo", "up")
except (subprocess.CalledProcessError, OSError) as e:
    remove()
    skip(f"no network namespaces here: {getattr(e, 'stderr', '') or e}".strip())

failures = []
try:
    with tempfile.TemporaryDirectory() as folder:
        # What mpirun starts on a "host": a shell in its namespace, under its own name.
        agent = os.path.join(folder, "agent")
        with open(agent, "w") as f:
            f.write(f"""#!/bin/bash
host=$1; shift
node=$(( ${{host##*.}} - 10 ))
exec ip netns exec {TAG}n$node unshare -u bash -c "hostname node$node; $*"
""")
        os.chmod(agent, 0o755)

        def job(*arguments):
            command = ["mpirun", "--mca", "plm_rsh_agent", agent, "--host", f"{NETWORK}.10:2,{NETWORK}.11:2", "-n", "4",
                       "--oversubscribe", "--bind-to", "none", "--mca", "oob_tcp_if_include", NETWORK + ".0/24",
                       "--mca", "btl_tcp_if_include", NETWORK + ".0/24", "--mca", "btl", "self,vader,tcp", "--mca", "pml", "ob1",
                       JOB, *arguments]
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                                  env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))

        p = job("hosts")
        hosts = dict(re.findall(r"rank (\d) on (\S+)", p.stdout))
        if p.returncode != 0 or not re.search(r"[1-9]\d* steps on 4 ranks, 0 wrong", p.stdout):
            failures.append(f"steps on two hosts, exit {p.returncode}:\n{p.stdout}")
        if hosts != {"0": "node0", "1": "node0", "2": "node1", "3": "node1"}:
            failures.append(f"ranks are on {hosts}")
        p = job("kill", "3")  # seen from the other host, over the network
        if p.returncode == 0 or not re.search(r"OPC0721\]: rank 3 \(process \d+ on node1\) is gone: .*; rank 0 was in all_reduce", p.stdout):
            failures.append(f"a killed rank of the other host, exit {p.returncode}:\n{p.stdout}")
finally:
    remove()
for failure in failures:
    print(failure, file=sys.stderr)
print("two hosts: failed" if failures else "two hosts: the steps of four ranks, and a killed rank named")
sys.exit(1 if failures else 0)
