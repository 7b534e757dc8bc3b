"""Headless Chromium, controlled through a pipe without further packages."""

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path

import pytest

import ke_plugin_analysis.hookimpls
from ke_testing.cli_fixtures import evaluated, ke, toys  # noqa: F401  fixtures

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "/": 191, "j": 74, "k": 75, "]": 221, "[": 219}


class Chromium:
    """A browser with one page. ``requests``: its requests; ``errors``: the messages of its console."""

    def __init__(self, program, profile):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        flags = " ".join(FLAGS)  # Chromium reads commands from 3 and answers on 4: the shell moves our ends there
        line = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{to_read} 4>&{from_write} 2>/dev/null'
        self.process = subprocess.Popen(["bash", "-c", line, program, str(profile)], pass_fds=(to_read, from_write))
        os.close(to_read)
        os.close(from_write)
        self._out, self._in = os.fdopen(to_write, "wb", 0), os.fdopen(from_read, "rb", 0)
        self._rest, self._last, self.requests, self.errors, self.events = b"", 0, [], [], []
        target = self._call("Target.createTarget", {"url": "about:blank"}, session="")["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, session="")[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path, fragment="", *, width=1280, height=900, dark=False):
        """Load a file; ``phone``: with a narrow touch screen."""
        phone = width < 600
        self._call(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone},
        )
        self._call(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
        )
        self._go("about:blank")  # or an address that differs in its fragment alone would load nothing
        self.requests.clear()
        self.errors.clear()
        started = time.monotonic()
        self._go(Path(path).resolve().as_uri() + fragment)
        self("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - started

    def _go(self, address):
        self.events.clear()
        self._call("Page.navigate", {"url": address})
        while "Page.loadEventFired" not in self.events:
            self._receive()

    def __call__(self, script):
        """Return the value of a JavaScript expression in the page, after its promises."""
        found = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys):
        """Press keys one after another."""
        for name in keys:
            text = "\r" if name == "Enter" else name if len(name) == 1 else ""
            about = {"key": name, "windowsVirtualKeyCode": KEYS[name], "code": name if len(name) > 1 else ""}
            self._call("Input.dispatchKeyEvent", {"type": "keyDown" if text else "rawKeyDown", "text": text, **about})
            self._call("Input.dispatchKeyEvent", {"type": "keyUp", **about})

    def type(self, text):
        """Type text into the focused element, and wait as long as the page waits for more."""
        self._call("Input.insertText", {"text": text})
        self("new Promise((done) => setTimeout(done, 300))")

    def shot(self, path, *, whole=False):
        """Return a PNG of the viewport or of the whole page."""
        found = self._call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        Path(path).write_bytes(b64decode(found["data"]))

    def close(self):
        self._out.close()
        self._in.close()
        self.process.terminate()
        self.process.wait(20)

    def _call(self, method, given=None, *, session=None):
        self._last += 1
        message = {"id": self._last, "method": method, "params": given or {}}
        session = self._session if session is None else session
        self._out.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _receive(self):
        while b"\0" not in self._rest:
            more = self._in.read(1 << 20)
            assert more, "the browser is gone"
            self._rest += more
        one, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(one)
        given = message.get("params", {})
        self.events.append(message.get("method"))
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        if message.get("method") == "Log.entryAdded":
            self.errors.append(given["entry"]["text"])
        if message.get("method") == "Runtime.exceptionThrown":
            thrown = given["exceptionDetails"]  # a rejected promise may carry no exception
            self.errors.append(thrown.get("exception", {}).get("description") or thrown["text"])
        return message


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Skip the test without Chromium."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    browser = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def plugins():
    return toys(ke_plugin_analysis.hookimpls)
