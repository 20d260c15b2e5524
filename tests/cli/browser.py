# Chromium over the DevTools protocol, through a pipe: real key events, the page's own clock, screenshots.
# SPDX-License-Identifier: Apache-2.0
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
SHIFT = 8


class Browser:
    """One page at a time. `problems` has what the console, uncaught errors and the policy of the page said, `requests` what it loaded."""

    def __init__(self, dark=False, width=1280, height=800):
        self.folder = tempfile.mkdtemp()
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()

        def pipes():  # the browser reads from 3 and writes to 4
            high = [os.dup2(to_read, 60), os.dup2(from_write, 61)]
            os.dup2(high[0], 3), os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
             "--user-data-dir=" + self.folder, f"--window-size={width},{height}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=pipes, close_fds=False)
        os.close(to_read), os.close(from_write)
        self.buffer, self.number, self.problems, self.requests, self.session = b"", 0, [], [], None
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.media(dark)

    def media(self, dark=False, medium=""):
        self.call("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        os.close(self.to), os.close(self.source)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def message(self, patience):
        end = time.monotonic() + patience
        while b"\0" not in self.buffer:
            if not select.select([self.source], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            piece = os.read(self.source, 1 << 20)
            if not piece:
                raise EOFError("the browser is gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.problems.append("console: " + json.dumps(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.problems.append("error: " + json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.problems.append("log: " + params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + params["message"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message

    def call(self, method, patience=120, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        number = self.number
        while True:
            answer = self.message(patience)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError((method, answer["error"]))
                return answer["result"]
            self.events.append(answer.get("method"))

    def open(self, path, part="", patience=120):
        """Loads the file and waits until it has been painted."""
        self.problems.clear(), self.requests.clear()
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.call("Page.navigate", url="file://" + path + ("#" + part if part else ""))
        end = time.monotonic() + patience
        while self.js("location.protocol === 'file:' && document.readyState === 'complete' && document.documentElement?.dataset.ready || ''") != "yes":
            if time.monotonic() > end:
                raise TimeoutError(path)
            time.sleep(0.02)
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def key(self, name, modifiers=0, times=1):
        """A key as the keyboard sends it."""
        printed = {"Enter": "\r", " ": " "}.get(name, name if len(name) == 1 else "")
        code = {" ": "Space"}.get(name, name if len(name) > 1 else "Key" + name.upper() if name.isalpha() else "")
        keys = {"key": name, "code": code, "modifiers": modifiers, "windowsVirtualKeyCode": KEYS.get(name, ord(name[0].upper()) if len(name) == 1 and name.isalnum() else 0)}
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown" if printed else "rawKeyDown", text=printed, **keys)
            self.call("Input.dispatchKeyEvent", type="keyUp", **keys)

    def write(self, text):
        for c in text:
            self.key(c)

    def focused(self):
        """Tag, role, id and label of what has the focus."""
        return self.js("(e => [e.tagName.toLowerCase(), e.getAttribute('role') || '', e.id, e.getAttribute('aria-label') || e.textContent.slice(0, 80)])(document.activeElement)")

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
