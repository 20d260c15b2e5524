# compare_builds.py finds nothing between a build and itself, and every kind of difference that is planted.
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
OPC = pathlib.Path(os.environ["OPC_BUILD_DIR"]) / "bin/opc"
CHOICE = ["--quick", "--kinds", "example,registry", "--only", "^(mlp unfused|cnn|matmul|square)$"]

# Another opc: the real one, with something changed on the way.
PLANTED = {
    # opc compile never fuses: other kernels, tasks and memory
    "plan": 'import subprocess, sys\nargs = sys.argv[1:]\n'
            'args += ["--no-fuse"] * (args[0] == "compile")\nsys.exit(subprocess.call([OPC, *args]))\n',
    # the last bit of one output
    "output": 'import subprocess, sys\nimport numpy as np\ncode = subprocess.call([OPC, *sys.argv[1:]])\n'
              'if sys.argv[1] == "run" and code == 0:\n'
              '    values = dict(np.load("out.npz"))\n'
              '    values[sorted(values)[0]].view(np.uint8).reshape(-1)[0] ^= 1\n'
              '    np.savez("out.npz", **values)\nsys.exit(code)\n',
    # the gradient graph has another name in it
    "gradient": 'import pathlib, subprocess, sys\ncode = subprocess.call([OPC, *sys.argv[1:]])\n'
                'if sys.argv[1] == "grad" and code == 0:\n'
                '    file = pathlib.Path("grad.pbtxt")\n'
                '    file.write_text(file.read_text().replace("_grad", "_backward"))\nsys.exit(code)\n',
    # a graph that runs is refused
    "message": 'import subprocess, sys\n'
               'if sys.argv[1] == "run":\n    print("error[OPC0999]: planted", file=sys.stderr)\n    sys.exit(70)\n'
               'sys.exit(subprocess.call([OPC, *sys.argv[1:]]))\n',
}


class CompareBuilds(unittest.TestCase):
    def compare(self, new, *flags):
        return subprocess.run([sys.executable, str(HERE / "compare_builds.py"), str(OPC), str(new), *CHOICE, *flags],
                              capture_output=True, text=True, timeout=500)

    def planted(self, kind, *flags):
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder, "opc")
            fake.write_text(f"#!{sys.executable}\nOPC = {str(OPC)!r}\n" + PLANTED[kind])
            fake.chmod(0o755)
            return self.compare(fake, *flags)

    def test_equal(self):
        done = self.compare(OPC)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[2:]}
        for kind in ("outputs", "tasks", "kernels", "memory", "peak", "interface", "gradients"):
            compared, equal, allowed, different = map(int, rows[kind])
            self.assertGreater(compared, 0, kind)
            self.assertEqual((equal, allowed, different), (compared, 0, 0), kind)

    def different(self, done, *kinds):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        found = {line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith("DIFFERENT")}
        self.assertLessEqual(set(kinds), found, done.stdout)

    def test_plan(self):
        self.different(self.planted("plan"), "tasks", "kernels", "memory")

    def test_output(self):
        self.different(self.planted("output"), "outputs")
        done = self.planted("output", "--allow", "^outputs: ")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_gradient(self):
        self.different(self.planted("gradient"), "gradients")

    def test_message(self):
        done = self.planted("message")
        self.different(done, "messages")
        self.assertIn("OPC0999", done.stdout)

    def test_usage(self):
        done = self.compare("/nowhere")
        self.assertNotIn(done.returncode, (0,), done.stdout)
        self.assertIn("/nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
