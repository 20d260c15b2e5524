# Models whose files become shorter while a run reads them: an error that names the file, never other numbers.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import messages as m  # noqa: E402

BIN = os.path.join(os.environ["OPC_BUILD_DIR"], "bin")
TABLE = np.arange(40001 * 31, dtype=np.float32).reshape(40001, 31)  # 4,960,124 bytes: of the last page the file has a part


class LostBytes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lost_bytes")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def model(self, tensor):
        return m.model(m.graph([m.node("Gather", ["t", "ids"], ["y"])], [m.value("ids", (2,), 7)], [m.value("y", (2, 31))], [tensor]))

    def runs_while(self, command, lost, size):
        """A run that goes on until a signal, whose first step is over when `lost` gets `size` bytes; its code and what it says."""
        with subprocess.Popen([os.path.join(BIN, command[0]), *command[1:], "--input", "ids=@ids.npy", "--print", "none"], cwd=self.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
            end = time.monotonic() + 60
            while p.poll() is None and time.monotonic() < end and self.seconds(p.pid) < 2:
                time.sleep(0.05)
            self.assertIsNone(p.poll())
            os.truncate(self.path(lost), size)
            time.sleep(0.2)
            if p.poll() is None:
                p.terminate()  # it ends with the step that it is in
            said = p.communicate(timeout=60)[1].decode()
        return p.returncode, said

    @staticmethod
    def seconds(pid):
        """Processor time: by then a graph of one op has run many times."""
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_of_a_model_its_data_and_a_plan(self):
        np.save(self.path("ids.npy"), np.array([0, 40000]))
        for what, lost in (("inline", "model.onnx"), ("beside", "t.data"), ("plan", "model.plan"), ("runtime", "model.plan")):
            for cut in (8, 6000, None):  # in the last page, pages of it, all
                self.write("t.data", TABLE.tobytes())
                beside = m.external("t", TABLE.shape, location="t.data")
                self.write("model.onnx", self.model(beside if what == "beside" else m.tensor("t", TABLE)))
                subprocess.run([os.path.join(BIN, "opc"), "compile", "model.onnx", "-o", "model.plan", "--quiet"], cwd=self.folder, check=True)
                command = {"runtime": ["opc-runtime", "model.plan"], "plan": ["opc", "run", "model.plan"]}.get(what, ["opc", "run", "model.onnx"])
                size = os.path.getsize(self.path(lost))
                code, said = self.runs_while([*command, "--repeat", "1000000000"], lost, 0 if cut is None else size - cut)
                with self.subTest(what=what, cut=cut):
                    self.assertEqual(code, 5, said)
                    self.assertRegex(said, rf"error\[OPC0702\]: \S*{lost}: the file became shorter while it was read")


if __name__ == "__main__":
    unittest.main()
