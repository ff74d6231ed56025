"""A local HTTP server with the faults of real ones."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server holds and how it behaves; it notes the Range of each request, None without one."""

    files: dict[str, bytes]
    url: str = ""
    cut_after: int | None = None  # close the connection after so many bytes of a body
    ranges: bool = True  # answer 206
    wrong_range: bool = False  # answer 206 with a range that was not asked for
    says_length: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Site]:
    site = Site(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            name = self.path.lstrip("/")
            site.requests.append((name, wanted))
            if name.startswith("moved/"):
                self.send_response(302)
                self.send_header("Location", f"/{name.removeprefix('moved/')}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if name not in site.files:
                self.send_error(404)
                return
            content = site.files[name]
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and site.ranges else 0
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if start and site.wrong_range:
                start -= 1
            body = content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if site.says_length:
                self.send_header("Content-Length", str(len(body)))
            for key, value in site.headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body if site.cut_after is None else body[: site.cut_after])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
