# Jobs of several processes under mpirun: every boxing step as on threads, and what is said when a rank dies, hangs or differs.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import time
import unittest

JOB = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc_mpi_job")
MPIRUN = shutil.which("mpirun")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
STEP = r"all_reduce of fc1\.w\.grad, 400000 bytes, with ranks 0-3"


@unittest.skipUnless(MPIRUN and os.path.exists(JOB), "needs mpirun and a build with MPI")
class Jobs(unittest.TestCase):
    def job(self, ranks, *arguments):
        """Exit code, what was said, seconds. A job that does not end is a failure."""
        begin = time.monotonic()
        p = subprocess.run([MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), JOB, *map(str, arguments)],
                           env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=300 if os.environ.get("OPC_SANITIZE") else 60)
        return p.returncode, p.stdout, time.monotonic() - begin

    def test_steps_are_those_of_threads(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                code, said, _ = self.job(ranks, "check")
                self.assertEqual(code, 0, said)
                self.assertRegex(said, rf"[1-9]\d* steps on {ranks} ranks, 0 wrong")

    def test_a_killed_rank_is_named(self):
        for victim in (0, 2):  # rank 0 is the centre of the monitors
            with self.subTest(victim=victim):
                code, said, seconds = self.job(4, "kill", victim)
                self.assertNotEqual(code, 0)
                self.assertRegex(said, rf"error\[OPC0721\]: rank {victim} \(process \d+ on .*\) is gone: .*; "
                                       rf"rank {3 if victim != 3 else 1} was in {STEP}")
                self.assertLess(seconds, 30)  # 3 s on an idle machine

    def test_a_stopped_rank_is_named(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                code, said, _ = self.job(4, "stop", victim)
                self.assertEqual(code, 5, said)
                self.assertRegex(said, rf"error\[OPC0722\]: rank \d has made no step for 3 s; it is in {STEP}; "
                                       rf"rank {victim} \(process \d+ on .*\) has not answered for \d s")

    def test_a_sleeping_rank_ends_the_job(self):
        code, said, _ = self.job(4, "sleep", 3)
        self.assertEqual(code, 5, said)
        self.assertRegex(said, rf"OPC0722\]: rank 0 has made no step for 3 s; it is in {STEP}")
        self.assertRegex(said, r"rank 3 was in no boxing")

    def test_a_failing_rank_gives_its_reason(self):
        code, said, _ = self.job(4, "fail", 1)
        self.assertEqual(code, 5, said)
        self.assertRegex(said, rf"OPC0721\]: rank 1 \(.*\) has failed: kernel fc1 met a NaN; rank [023] was in {STEP}")

    def test_a_rank_that_ends_early_is_named(self):
        code, said, _ = self.job(4, "leave", 1)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, rf"OPC0721\]: rank 1 has ended; rank \d was in {STEP}")

    def test_a_wait_has_an_end(self):
        code, said, _ = self.job(2, "timeout", 1)
        self.assertEqual(code, 5, said)
        self.assertRegex(said, r"error\[OPC0722\]: rank 0 has waited \d s for rank 1")

    def test_different_plans_are_told(self):
        code, said, _ = self.job(4, "disagree", 1)
        self.assertEqual(code, 3, said)
        said = re.sub(r"[0-9a-f]{16}", "X", said)
        self.assertIn("error[OPC0723]: the ranks have different plans: rank 1 has X (7 bytes), ranks 0,2-3 have X (8 bytes)",
                      said)

    def test_a_missing_module_is_told(self):
        p = subprocess.run([JOB], env=dict(ENVIRONMENT, OPC_MPI_MODULE="/nowhere/libopc_mpi.so"), capture_output=True, text=True)
        self.assertEqual(p.returncode, 4)
        self.assertIn("OPC0725: the MPI engine was not found; tried /nowhere/libopc_mpi.so", p.stderr)


if __name__ == "__main__":
    unittest.main()
