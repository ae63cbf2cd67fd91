"""The real server in a process of its own, and a headless browser, for tests and benchmarks."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Playwright

ROOT = Path(__file__).parents[2]
APP = ROOT / "dashboard" / "app.py"
# Debian has it where only root's shell looks
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
]


@dataclass(frozen=True)
class Server:
    """A running server: where it listens, the file that it logs to, and its process."""

    address: str
    log: Path
    process: int


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _started(script: Path, options: Sequence[str], port: int) -> Iterator[tuple[Server, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "streamlit", "run", str(script), f"--server.port={port}", *options]
    with (
        tempfile.NamedTemporaryFile(suffix=".log") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield Server(f"http://127.0.0.1:{port}", Path(log.name), process.pid), process
        finally:
            process.terminate()


@contextmanager
def starting(script: Path, port: int) -> Iterator[Server]:
    """Run a script with `streamlit run`; it may not answer yet."""
    with _started(script, (), port) as (server, _):
        yield server


@contextmanager
def serve(script: Path, *options: str, port: int = 0) -> Iterator[Server]:
    """Run a script with `streamlit run` until it answers, on a free port unless one is given."""
    with _started(script, options, port or free_port()) as (server, process):
        wait_for(f"{server.address}/_stcore/health", process)
        yield server


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 90) -> None:
    """Wait until the process answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with code {process.returncode} before it answered")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{url} did not answer within {seconds} s")


@contextmanager
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The system's Chromium, or the one that `CHROMIUM` names."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    browser = playwright.chromium.launch(executable_path=path, args=QUIET)
    try:
        yield browser
    finally:
        browser.close()
