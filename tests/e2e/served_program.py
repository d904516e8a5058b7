"""Starts `seekline serve` for a test and reads its log."""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

SKIP = 77


class ServedProgram:
    """`program serve` on a free port of this machine. Lines of its log are kept in `log`."""

    def __init__(self, program, *arguments, model=None):
        command = [str(program), "serve", "--port", "0", "--no-probe", *arguments]
        if model:
            command += ["--model", str(model)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log, self.other = [], []
        self.listening = threading.Event()
        self.url = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.listening.wait(300) or self.url is None:
            self.process.kill()
            raise RuntimeError("the server did not start: " + " ".join(self.other[-5:]))

    def _read(self):
        for line in self.process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                self.other.append(line.strip())
                continue
            self.log.append(entry)
            if entry["event"] == "listening":
                self.url = entry["address"].rstrip("/")
                self.listening.set()
        self.listening.set()

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def request(self, method, path, body=None, headers=None, timeout=300):
        """Status, headers and JSON of an answer (its text where it is none)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        try:
            return reply.status, dict(reply.getheaders()), json.loads(text)
        except ValueError:
            return reply.status, dict(reply.getheaders()), text.decode(errors="replace")

    def stats(self):
        return self.request("GET", "/stats")[2]

    def resident_bytes(self):
        """Memory of its own: mapped weights are not counted."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon")

    def stop(self, patience=60):
        """Ends it as systemd would; returns the exit code and the seconds it took."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(patience)
        return code, time.monotonic() - start

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        if failure is None and self.other:  # a sanitizer's report is no JSON
            raise AssertionError("lines of the log that are not JSON: " + "\n".join(self.other[:40]))


def default_model_is_there():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "seekline"
    return any(cache.glob("models/smollm2*/config.json"))
