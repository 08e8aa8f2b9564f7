"""Serve the built deck on loopback, open it, and reload it whenever it is rebuilt: `make present`.

The script that looks for a rebuild is added to the page as it is served; the file itself has none.
"""

import argparse
import http.server
import sys
import threading
import webbrowser
from pathlib import Path

from pipeline.paths import COMMITTED

VERSION_PATH = "/version"
POLICY = b"default-src 'none';"
RELOADER = b"""<script>
(() => {
  let seen = null;
  setInterval(async () => {
    try {
      const answer = await fetch("/version", { cache: "no-store" });
      const now = await answer.text();
      if (answer.ok && now) {
        if (seen !== null && now !== seen) location.reload();
        seen = now;
      }
    } catch {
      // the server has been stopped; the deck goes on without it
    }
  }, 700);
})();
</script>
</body>"""


def served(page: bytes) -> bytes:
    """The page with the reloader in it, and leave for it to ask this server."""
    return page.replace(POLICY, POLICY + b" connect-src 'self';", 1).replace(b"</body>", RELOADER, 1)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers two addresses: the deck, and what changes when it is rebuilt."""

    html: Path

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            if path == VERSION_PATH:
                self.answer(str(self.html.stat().st_mtime_ns).encode(), "text/plain")
            elif path in ("/", "/index.html"):
                self.answer(served(self.html.read_bytes()), "text/html; charset=utf-8")
            else:
                self.send_error(404)
        except FileNotFoundError:
            self.send_error(503, "The deck is being rebuilt")
        except ConnectionError:
            pass  # the browser went on before it had read all

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line per request would bury the one line that matters."""


def server(html: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server for one deck on loopback; port 0 takes a free one."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), type("DeckHandler", (Handler,), {"html": html}))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="present", description="Serve the deck on loopback; reload it when it is rebuilt.")
    parser.add_argument("--deck", type=Path, default=COMMITTED.html, help="the built page (default: deck/index.html)")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    asked = parser.parse_args(arguments)
    if not asked.deck.is_file():
        print(f"{asked.deck} is not there yet: run make deck first", file=sys.stderr)
        return 3
    try:
        serving = server(asked.deck, asked.port)
    except (OSError, OverflowError) as error:
        print(f"port {asked.port} on 127.0.0.1 cannot be used ({error}): leave --port out to take a free one", file=sys.stderr)
        return 2
    address = f"http://127.0.0.1:{serving.server_address[1]}/"
    print(f"The deck is at {address} (stop with Ctrl-C)", flush=True)
    if not asked.no_open:  # a text browser keeps this call until it is closed
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
    try:
        serving.serve_forever()
    except KeyboardInterrupt:
        pass  # the way to stop it
    finally:
        serving.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
