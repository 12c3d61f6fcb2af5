"""A headless Chromium, driven over a pipe by the DevTools protocol; it takes no other package."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
PATIENCE = 60.0  # seconds; a busy machine starts a browser slowly
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "End": 35, "Home": 36}

# The browser reads commands from descriptor 3 and writes answers to 4; copies first, as either may be taken.
LAUNCHER = """
import fcntl, os, sys
source, sink = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(source, 3)
os.dup2(sink, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. What it complains about, and what it asks of a network, is kept."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(1280, 1000)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something and wait for its answer; events on the way are noted."""
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._note(answer)

    def open(self, path: Path) -> None:
        """Load a file from disk."""
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && location.href.startsWith('file:')")

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.ask(condition):
            assert time.monotonic() < end, f"{condition} did not come true; complaints: {self.complaints}"
            time.sleep(0.02)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.ask(f"document.querySelector({json.dumps(selector)}).textContent"))

    def hover(self, selector: str, x: float = 0.5, y: float = 0.5) -> dict[str, float]:
        """Move the mouse to fractions of an element's box; returns where that is."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.ask(
            f"(({{x, y, width, height}}) => [x, y, width, height])({found}.getBoundingClientRect())"
        )
        place = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
        return place

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """A real click with the mouse, at fractions of the element's box."""
        place = self.hover(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, buttons=1, **place)

    def press(self, key: str) -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])

    def resize(self, width: int, height: int) -> None:
        """Change the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A PNG of the page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._reads, 1 << 20)
            assert part, "the browser has gone"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(
            ("file:", "data:")
        ):
            self.requests.append(told["request"]["url"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start the browser with a profile of its own, and end it."""
    assert PROGRAM is not None
    to_browser, ours_out = os.pipe()
    ours_in, from_browser = os.pipe()
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={profile}"]
    command = [sys.executable, "-c", LAUNCHER, str(to_browser), str(from_browser), PROGRAM, *options]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), **quiet)
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Browser(ours_in, ours_out)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        process.terminate()
        process.wait(PATIENCE)
