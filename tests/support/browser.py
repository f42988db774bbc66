"""Headless Chromium for tests of pages: from npm, controlled over its debugging pipe."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import platform
import select
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]

PACKAGE = "@sparticuz/chromium"
VERSION = "153.0.0"
PACKAGE_SHA512 = (
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0"
)
# The package has its parts compressed by Brotli, which Node has and Python has not.
DECOMPRESS_SCRIPT = """
const fs = require("fs"), {createBrotliDecompress} = require("zlib");
const {pipeline} = require("stream");
const fail = (error) => { if (error) throw error; };
for (const [from, to] of JSON.parse(process.argv[1]))
    pipeline(fs.createReadStream(from), createBrotliDecompress(), fs.createWriteStream(to), fail);
"""
# Libraries, fonts, and a renderer for machines without a GPU.
TAR_NAMES = ("al2023.tar", "fonts.tar", "swiftshader.tar")
FONT_CONFIG = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/font-cache</cachedir>
</fontconfig>
"""
FLAGS = (
    "--headless=shell",
    "--remote-debugging-pipe",
    # The pages are this project's own, and a container has no sandbox to offer.
    "--no-sandbox",
    "--no-zygote",
    "--in-process-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
)
DEADLINE_SECS = 30.0
INSTALL_SECS = 300.0


class Unavailable(Exception):
    """The browser cannot be used; the message has the reason."""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "marey" / f"chromium-{VERSION}"


def run_command(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=INSTALL_SECS
        )
    except subprocess.CalledProcessError as error:
        reason = (str(error.stderr).strip().splitlines() or ["it failed"])[-1]
        raise Unavailable(f"{command[0]}: {reason}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error


def download_package(work: Path) -> Path:
    """Downloads the package, verifies its hash, and unpacks it."""
    run_command(
        ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", "."], work
    )
    [archive] = work.glob("*.tgz")
    if hashlib.sha512(archive.read_bytes()).hexdigest() != PACKAGE_SHA512:
        raise Unavailable(f"{PACKAGE}@{VERSION} is not the package that was pinned")
    with tarfile.open(archive) as package:
        package.extractall(work, filter="data")
    unpacked = work / "unpacked"
    unpacked.mkdir()
    compressed = work / "package" / "bin"
    names = ("chromium", *TAR_NAMES)
    pairs = [(str(compressed / f"{name}.br"), str(unpacked / name)) for name in names]
    run_command(["node", "-e", DECOMPRESS_SCRIPT, json.dumps(pairs)], work)
    for name in TAR_NAMES:
        with tarfile.open(unpacked / name) as part:
            part.extractall(unpacked, filter="data")
        (unpacked / name).unlink()
    (unpacked / "chromium").chmod(0o755)
    return unpacked


def install() -> Path:
    """Returns the folder of the browser, downloaded once. Raises `Unavailable`."""
    folder = cache_folder()
    if (folder / "chromium").exists():
        return folder
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unavailable("the package is for Linux on x86-64")
    for tool in ("npm", "node"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not installed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        unpacked = download_package(Path(work))
        (unpacked / "fonts.conf").write_text(FONT_CONFIG.format(folder=folder))
        try:
            # In one step, so that two tests at a time see all of it or nothing.
            unpacked.rename(folder)
        except OSError:
            if not (folder / "chromium").exists():
                raise
    return folder


class Browser:
    """A running browser, as a context manager."""

    def __init__(self) -> None:
        folder = install()
        self._home = tempfile.TemporaryDirectory()
        browser_in, self._write = os.pipe()
        self._read, browser_out = os.pipe()

        def place_pipes() -> None:
            # The browser reads 3 and writes 4. Copies out of the way first: they may be these.
            copies = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (browser_in, browser_out)]
            for number, copy in enumerate(copies, 3):
                os.dup2(copy, number)

        self._process = subprocess.Popen(
            [folder / "chromium", *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"],
            preexec_fn=place_pipes,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                "PATH": os.defpath,
                "HOME": self._home.name,
                "TZ": "UTC",
                "LANG": "C.UTF-8",
                "LD_LIBRARY_PATH": str(folder / "lib"),
                "FONTCONFIG_FILE": str(folder / "fonts.conf"),
            },
        )
        os.close(browser_in)
        os.close(browser_out)
        self._received = b""
        self._last_id = 0
        self.pages: dict[str, Page] = {}
        self.version = str(self.ask("Browser.getVersion")["product"])

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._home.cleanup()

    def _receive(self, deadline: float) -> Message:
        while b"\0" not in self._received:
            remaining_secs = deadline - time.monotonic()
            if remaining_secs <= 0 or not select.select([self._read], [], [], remaining_secs)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self._received += part
        text, self._received = self._received.split(b"\0", 1)
        message: Message = json.loads(text)
        return message

    def _receive_and_handle(self, deadline: float) -> Message:
        message = self._receive(deadline)
        if "method" in message and message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].handle_event(message["method"], message["params"])
        return message

    def ask(self, method: str, session: str | None = None, **params: Any) -> Message:
        """Calls a method of the protocol and returns its answer."""
        self._last_id += 1
        message_id = self._last_id
        message: Message = {"id": message_id, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._write, text) :]
        deadline = time.monotonic() + DEADLINE_SECS
        while (answer := self._receive_and_handle(deadline)).get("id") != message_id:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: Message = answer["result"]
        return result

    def wait_for(self, page: Page, event: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECS
        while event not in page.events:
            self._receive_and_handle(deadline)

    def page(self, path: Path, width: int = 1200, height: int = 900, *, dark: bool = False) -> Page:
        """Opens a file."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        page.resize(width, height)
        page.media(dark=dark)
        page.events.clear()
        page.ask("Page.navigate", url=path.absolute().as_uri())
        self.wait_for(page, "Page.loadEventFired")
        page.settle()
        return page


class Page:
    """An open page with its errors and requests."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.events: set[str] = set()
        self.errors: list[str] = []
        self.requests: list[str] = []

    def ask(self, method: str, **params: Any) -> Message:
        return self._browser.ask(method, self._session, **params)

    def handle_event(self, method: str, params: Message) -> None:
        self.events.add(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.errors.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded":
            self.errors.append(str(params["entry"]["text"]))
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(str(params["request"]["url"]))

    def evaluate(self, source: str) -> Any:
        """Returns the value of an expression; waits for promises."""
        answer = self.ask(
            "Runtime.evaluate",
            expression=source,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def settle(self) -> None:
        """Waits until the page is laid out and rendered."""
        two_frames = "requestAnimationFrame(() => requestAnimationFrame(() => done(1)))"
        self.evaluate(f"new Promise((done) => {two_frames})")

    def count(self, selector: str) -> int:
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def texts(self, selector: str) -> list[str]:
        elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return list(self.evaluate(f"{elements}.map((element) => element.textContent)"))

    def scroll_to(self, selector: str) -> tuple[float, float]:
        """Scrolls an element into view; returns the position of its centre."""
        x, y = self.evaluate(
            "((element) => { element.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const box = element.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        return float(x), float(y)

    def _mouse(self, kind: str, x: float, y: float, **params: Any) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)

    def hover(self, selector: str) -> None:
        self._mouse("mouseMoved", *self.scroll_to(selector))
        self.settle()

    def click(self, selector: str) -> None:
        x, y = self.scroll_to(selector)
        self._mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def press(self, key: str) -> None:
        """Presses a named key, such as `Enter` or `ArrowDown`."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            typed = text if kind == "keyDown" else {}
            code = codes[key]
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **typed,
            )
        self.settle()

    def write(self, text: str) -> None:
        """Types text into the focused element."""
        self.ask("Input.insertText", text=text)
        self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, *, dark: bool = False, media: str = "") -> None:
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def screenshot(self, path: Path, *, is_full: bool = False) -> None:
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=is_full)
        path.write_bytes(base64.b64decode(shot["data"]))
