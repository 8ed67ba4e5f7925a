"""Downloads against a real server on this machine, with an archive that the test makes."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sql_env.sources.download import BIRD, SPIDER, Archive, DownloadError, fetch

CONTENT = b"".join(hashlib.sha256(bytes([n % 256, n // 256])).digest() for n in range(20_000))
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /archive.zip; what goes wrong is set by the test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.break_off_after: list[int] = []  # one entry per request that shall break off
        self.knows_ranges = True
        self.requests: list[str | None] = []

    def url(self, path: str = "/archive.zip") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append(asked)
        if self.path == "/quota.zip":
            return self._send(200, b"<html>Too many users</html>", "text/html")
        if self.path == "/wrong.zip":
            return self._send(200, b"something else", "application/zip")
        if self.path != "/archive.zip":
            return self.send_error(404)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if not self.server.knows_ranges:
            start = 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            return self.end_headers()
        resumed = asked and self.server.knows_ranges
        self._send(206 if resumed else 200, CONTENT[start:], "application/zip")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.break_off_after:
            body = body[: self.server.break_off_after.pop(0)]
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def archive(*addresses: str, sha256: str | None = CHECKSUM) -> Archive:
    return Archive("archive.zip", addresses, sha256)


def test_a_file_arrives_with_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch(archive(server.url()), tmp_path, lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "archive.zip" and path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT)) and len(seen) > 3
    assert seen == sorted(seen)


def test_a_file_that_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    fetch(archive(server.url()), tmp_path)
    fetch(archive(server.url()), tmp_path)
    assert len(server.requests) == 1


def test_a_file_with_the_wrong_checksum_is_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "archive.zip").write_bytes(b"half of it")
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT


def test_a_download_that_breaks_off_goes_on_at_once(server: Server, tmp_path: Path) -> None:
    server.break_off_after = [300_000]
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=300000-"]


def test_a_download_that_broke_off_goes_on_in_the_next_run(server: Server, tmp_path: Path) -> None:
    server.break_off_after = [300_000, 0]
    with pytest.raises(DownloadError, match="the next attempt goes on from there"):
        fetch(archive(server.url()), tmp_path)
    assert not (tmp_path / "archive.zip").exists()
    assert (tmp_path / "archive.zip.part").stat().st_size == 300_000
    seen: list[int] = []
    path = fetch(archive(server.url()), tmp_path, lambda done, total: seen.append(done))
    assert path.read_bytes() == CONTENT and min(seen) > 300_000
    assert not (tmp_path / "archive.zip.part").exists()


def test_a_server_without_ranges_begins_anew(server: Server, tmp_path: Path) -> None:
    server.break_off_after = [300_000]
    server.knows_ranges = False
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT


def test_a_complete_part_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "archive.zip.part").write_bytes(CONTENT)
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT
    assert server.requests == [f"bytes={len(CONTENT)}-"]


def test_a_part_that_is_too_long_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "archive.zip.part").write_bytes(CONTENT + b"x")
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("/missing.zip", "HTTP 404"),
        ("/quota.zip", "answered with a web page"),
        ("/wrong.zip", f"expected {CHECKSUM}"),
    ],
)
def test_the_next_address_is_tried(server: Server, tmp_path: Path, first: str, reason: str) -> None:
    assert fetch(archive(server.url(first), server.url()), tmp_path).read_bytes() == CONTENT
    with pytest.raises(DownloadError, match=reason):
        fetch(archive(server.url(first)), tmp_path / "other")
    assert not (tmp_path / "other" / "archive.zip").exists()


def test_without_a_network_every_address_and_the_way_around_are_named(tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(archive("http://127.0.0.1:9/archive.zip"), tmp_path)
    text = str(caught.value)
    assert "http://127.0.0.1:9/archive.zip" in text and "refused" in text
    assert "--source DIR or --source ZIP" in text


def test_an_unknown_checksum_is_recorded(server: Server, tmp_path: Path) -> None:
    path = fetch(archive(server.url(), sha256=None), tmp_path)
    assert (tmp_path / "archive.zip.sha256").read_text().strip() == CHECKSUM
    path.write_bytes(b"tampered with")
    assert fetch(archive(server.url(), sha256=None), tmp_path).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match="cannot be made"):
        fetch(archive(server.url()), tmp_path / "file" / "folder")


def test_a_full_disk_is_not_taken_for_a_broken_connection(server: Server, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sql_env.sources.download import *\n"
        "try: fetch(Archive('archive.zip', (sys.argv[1],)), Path(sys.argv[2]))\n"
        "except DownloadError as error: print(error); raise SystemExit(3)"
    )

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    run = subprocess.run(
        [sys.executable, "-c", program, server.url(), str(tmp_path)],
        capture_output=True,
        text=True,
        preexec_fn=small_files_only,
    )
    assert run.returncode == 3, run.stderr
    assert "archive.zip.part: cannot be written: File too large" in run.stdout
    assert fetch(archive(server.url()), tmp_path).read_bytes() == CONTENT
    assert server.requests == [None, "bytes=100000-"]


@pytest.mark.parametrize("known", [SPIDER, BIRD])
def test_the_real_archives_have_a_checksum_and_two_homes(known: Archive) -> None:
    assert len(known.sha256 or "") == 64
    assert len({address.split("/")[2] for address in known.addresses}) == 2
    assert all(address.startswith("https://") for address in known.addresses)
