"""Download an archive: several addresses, resumed where it broke off, checked before it is used.

A partial download stays in `<name>.part`; the next attempt, from whatever address, goes on from
there. Only a file with the right checksum gets its real name.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol

from sql_env.sources.raw import SourceError

DEFAULT_FOLDER = Path.home() / ".cache" / "sql-env"
_BLOCK = 1 << 16
_SECONDS = 30
_ATTEMPTS = 5


class DownloadError(SourceError):
    """No address delivered the archive; the message has each one's reason and the way around."""


@dataclass(frozen=True)
class Archive:
    """A file that lies at one or more addresses.

    Args:
        name: what to call it here.
        addresses: where to look, in this order.
        sha256: the checksum; None where it is not known, then the first download's is recorded.
    """

    name: str
    addresses: tuple[str, ...]
    sha256: str | None = None


# The authors' own archive of Spider 1.0, and a byte-identical copy on the hub.
SPIDER = Archive(
    "spider_data.zip",
    (
        "https://drive.usercontent.google.com/download"
        "?id=1403EGqzIDoHMdQF4c9Bkyl7dZLZ5Wt6J&export=download&confirm=t",
        "https://huggingface.co/datasets/HAL-9001/spider-databases/resolve/"
        "4a01bbac6520cd35b216db9e1724e5e1ada60aa4/spider_data.zip",
    ),
    "00636695dabed6b5f4b8328a16b13e069a2f16591d5efcce57660669c85b121b",
)
BIRD = Archive(
    "bird_dev.zip",
    (
        "https://bird-bench.oss-cn-beijing.aliyuncs.com/dev.zip",
        "https://huggingface.co/datasets/HAL-9001/bird-dev/resolve/main/dev.zip",
    ),
    "cdd6d19faeb45a23970b98d3ef6c40a87987c95459c2cf12076897a60cf5a630",
)


class Progress(Protocol):
    """Told after every block how much there is and how much there will be, where that is known."""

    def __call__(self, done: int, total: int | None) -> None: ...


def fetch(archive: Archive, folder: Path, on_progress: Progress = lambda done, total: None) -> Path:
    """The archive's file in `folder`, downloaded unless it is already there.

    Raises:
        DownloadError: no address delivered it, or what came has another checksum.
    """
    target = folder / archive.name
    record = folder / f"{archive.name}.sha256"
    expected = archive.sha256 or (record.read_text().strip() if record.exists() else None)
    if target.exists() and (expected is None or _sha256(target) == expected):
        return target
    part = folder / f"{archive.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"{folder}: cannot be made: {error.strerror}") from error
    reasons = []
    for address in archive.addresses:
        try:
            _download(address, part, on_progress)
        except _FAILURES as error:
            reasons.append(f"  {address}\n    {_reason(error)}")
            continue
        found = _sha256(part)
        if archive.sha256 in (None, found):
            record.write_text(found + "\n")
            return part.rename(target)
        part.unlink()
        reasons.append(f"  {address}\n    came with checksum {found}, expected {archive.sha256}")
    raise DownloadError(
        f"cannot download {archive.name}:\n"
        + "\n".join(reasons)
        + "\nWithout a connection, get a copy elsewhere and pass it: --source DIR or --source ZIP. "
        "What has arrived is kept; the next attempt goes on from there."
    )


class _NotTheArchiveError(Exception):
    """The address answered with something else."""


# What a network can do to us: URLError, ConnectionError, TimeoutError and SSLError are OSErrors.
_FAILURES = (OSError, http.client.HTTPException, _NotTheArchiveError)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    return str(getattr(error, "reason", None) or error or type(error).__name__)


def _download(address: str, part: Path, on_progress: Progress) -> None:
    """Fill `part`; a connection that breaks off is taken up again as long as bytes arrive."""
    for attempt in range(_ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            _download_once(address, part, on_progress)
            return
        except (http.client.IncompleteRead, ConnectionError, TimeoutError):
            progressed = part.exists() and part.stat().st_size > before
            if not progressed or attempt == _ATTEMPTS - 1:
                raise


def _download_once(address: str, part: Path, on_progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"User-Agent": "sql-env"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing lies beyond what we have
            if _total(error.headers.get("Content-Range")) == have:
                return
            part.unlink()
            return _download_once(address, part, on_progress)
        raise
    with response:
        if response.headers.get_content_type() == "text/html":
            raise _NotTheArchiveError("answered with a web page instead of the archive")
        resumed = response.status == 206
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb", buffering=0) as file:
            while block := response.read(_BLOCK):
                _write(file, block)
                done += len(block)
                on_progress(done, total)
        if total is not None and done < total:
            raise http.client.IncompleteRead(b"", total - done)


def _write(file: FileIO, block: bytes) -> None:
    """Tell a full disk from a broken connection: both are OSErrors."""
    try:
        while block:
            block = block[file.write(block) :]
    except OSError as error:
        raise DownloadError(
            f"{file.name!s}: cannot be written: {error.strerror}: make room, or choose another "
            "folder with --downloads"
        ) from error


def _total(content_range: str | None) -> int | None:
    match = re.fullmatch(r"bytes \*/(\d+)", content_range or "")
    return int(match[1]) if match else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
