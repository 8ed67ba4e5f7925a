"""Open a source as a folder, be it a folder or a ZIP archive of one."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from sql_env.sources.raw import SourceError

_ENDINGS = {".json", ".csv", ".sqlite", ".sqlite3", ".db"}


@contextmanager
def opened(
    source: Path, marker: str, only_databases: Collection[str] | None = None
) -> Iterator[Path]:
    """The folder with a folder called `marker` in it: the source itself, or one inside it.

    Args:
        source: a folder, or a ZIP archive; that is unpacked for as long as the context is open.
        marker: a pattern for the folder that holds the databases.
        only_databases: unpack no other databases from an archive.

    Raises:
        SourceError: there is no such source, it cannot be unpacked, or it holds no such folder.
    """
    if source.is_dir():
        yield _root(source, source, marker)
    elif source.is_file():
        with tempfile.TemporaryDirectory(prefix="sql-env-") as temporary:
            folder = Path(temporary)
            _unpack(source, folder, only_databases)
            yield _root(folder, source, marker)
    else:
        raise SourceError(f"{source}: no such folder or archive: --source takes a DIR or a ZIP")


def _root(folder: Path, source: Path, marker: str) -> Path:
    """Archives wrap their content in a folder of varying name: look two levels deep."""
    for pattern in (marker, f"*/{marker}", f"*/*/{marker}"):
        for found in sorted(folder.glob(pattern)):
            if found.is_dir():
                return found.parent
    raise SourceError(
        f"{source}: there is no folder {marker} with the databases in it: is this the right "
        "folder or archive, and is all of it unpacked?"
    )


def _unpack(archive: Path, folder: Path, only_databases: Collection[str] | None) -> None:
    def wanted(path: PurePosixPath) -> bool:
        if path.parts[0] == "__MACOSX" or path.suffix not in _ENDINGS:
            return False
        is_text = path.suffix in (".json", ".csv")
        return is_text or only_databases is None or path.stem in only_databases

    def is_inner_archive(path: PurePosixPath) -> bool:
        return path.parts[0] != "__MACOSX" and path.name.endswith("_databases.zip")

    try:
        _extract(archive, folder, wanted)
        # BIRD packs its databases into an archive of their own inside the archive.
        _extract(archive, folder, is_inner_archive)
        for inner in folder.rglob("*_databases.zip"):
            _extract(inner, inner.parent, wanted)
            inner.unlink()
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceError(
            f"{archive}: not a ZIP archive, or a damaged one ({error}): get it again"
        ) from error
    except OSError as error:
        raise SourceError(
            f"{archive}: cannot be unpacked in {folder}: {error.strerror}: make room there, or "
            "unpack it yourself and pass the folder"
        ) from error


def _extract(archive: Path, folder: Path, wanted: Callable[[PurePosixPath], bool]) -> None:
    with zipfile.ZipFile(archive) as packed:
        for item in packed.infolist():
            path = PurePosixPath(item.filename)
            # An archive from elsewhere must not write outside its folder.
            if item.is_dir() or path.is_absolute() or ".." in path.parts or not wanted(path):
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with packed.open(item) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file)
