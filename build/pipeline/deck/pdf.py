"""The deck as a PDF, printed from the built page by a Chromium found on the machine."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PLACES = (  # where an installer puts one that is not on PATH
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
)
QUIET = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-pdf-header-footer",
)
TIMEOUT_S = 120
DATE = re.compile(rb"\(D:\d{14}([^)]*)\)")
NODE = re.compile(rb"node(\d{8})")


def browser() -> str | None:
    """A Chromium on this machine, or None."""
    on_path = (shutil.which(name) for name in BROWSERS)
    return next(filter(None, on_path), None) or next((place for place in PLACES if Path(place).is_file()), None)


def pdf(html_path: Path, out: Path) -> str | None:
    """Print the page at `html_path` to `out`, the same page to the same bytes. Returns in one line why not, or None."""
    program = browser()
    if program is None:
        return "no Chromium or Chrome found on this machine; install one and run again with --pdf"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, prefix="deck-pdf-") as folder:
        printed = Path(folder) / "deck.pdf"
        page = html_path.resolve().as_uri()
        settle = "--virtual-time-budget=5000"  # print when the fonts are there, not before: in the page's own time
        command = [program, *QUIET, settle, f"--user-data-dir={folder}/profile", f"--print-to-pdf={printed}", page]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium refuses its sandbox to root
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"{program} did not finish within {TIMEOUT_S} s"
        except OSError as error:
            return f"{program} did not start ({error.strerror})"
        if not printed.is_file():
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return f"{program} ended with {done.returncode}: {said}"
        fresh = out.with_name(f".{out.name}.new")
        try:
            fresh.write_bytes(settled(printed.read_bytes()))
            fresh.replace(out)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            return f"{out} cannot be written ({error.strerror})"
    return None


def settled(printed: bytes) -> bytes:
    """A PDF without what differs from print to print: its time, and the numbers its elements happened to have."""
    ranks = {number: b"node%08d" % rank for rank, number in enumerate(sorted(set(NODE.findall(printed))))}
    dated = DATE.sub(lambda date: b"(D:20000101000000" + date[1] + b")", printed)
    return NODE.sub(lambda node: ranks[node[1]], dated)
