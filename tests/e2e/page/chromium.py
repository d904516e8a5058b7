"""Headless Chromium, driven over its debugging pipe with nothing but the standard library."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Chromium:
    """One browser with one page. Use as a context manager."""

    def __init__(self, width=1400, height=900):
        self.folder = tempfile.mkdtemp(prefix="seekline-page-")
        to_browser, from_browser = os.pipe(), os.pipe()
        # Away from 3 and 4, which the browser's ends will be.
        reads, writes = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser[0], from_browser[1]))

        def place_ends():
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
             "--user-data-dir=" + self.folder, f"--window-size={width},{height}", "about:blank"],
            preexec_fn=place_ends, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (reads, writes, to_browser[0], from_browser[1]):
            os.close(fd)
        self.to_browser = os.fdopen(to_browser[1], "wb", buffering=0)
        self.from_browser = os.fdopen(from_browser[0], "rb", buffering=0)
        self.buffer = b""
        self.last_id = 0
        self.session = None
        self.requests = []  # URLs asked for
        self.messages = []  # console messages and exceptions of the page
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except Exception:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            piece = self.from_browser.read(1 << 16)
            if not piece:
                raise RuntimeError("Chromium has gone")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.messages.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to_browser.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive()
            if reply.get("id") == self.last_id:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            self.note(reply)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.getElementById('input') !== null")

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                           userGesture=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])[:500]}")
        return result["result"].get("value")

    def wait(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not self.js(condition):
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds} s still not: {condition}; page: "
                                     + str(self.js("document.body && document.body.innerText"))[-1500:])
            time.sleep(0.05)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, code=None, modifiers=0):
        """modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        codes = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9}
        common = dict(key=key, code=code or key, modifiers=modifiers, windowsVirtualKeyCode=codes.get(key, 0))
        if key == "Enter":
            common["text"] = "\r"
        elif len(key) == 1:
            common["windowsVirtualKeyCode"] = ord(key.upper())
        self.call("Input.dispatchKeyEvent", type="keyDown", **common)
        common.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector):
        """A real click in the middle of what the selector finds."""
        x, y = self.js(f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                       "return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
