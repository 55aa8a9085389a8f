"""Published files: where they are, which bytes they must have, and a local copy of them.

A file is looked for under `$LEVELFIELD_DATA/<set>/<path>`, then in the cache, and is downloaded
only then. Whatever its way, its bytes are those that were published, or there is an error.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.core.progress import Progress, no_progress
from levelfield.io.http import get, within
from levelfield.io.streams import sha256
from levelfield.io.writing import user_cache

RAW = "https://raw.githubusercontent.com"
_CHUNK = 1 << 16
_ATTEMPTS = 3
_TIMEOUT_S = 60.0
"""Of the head of an answer, and of each chunk of its body: a slower server is given up."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/")


class FetchError(UserError):
    """A published file can't be obtained, or its bytes are not those that were published."""


@dataclass(frozen=True, slots=True)
class Published:
    """One file at one commit of a public repository.

    Attributes:
        set: the folder under `$LEVELFIELD_DATA`, and in the cache, where copies lie.
        repository, commit, path: where it was published.
        sha256: of its bytes.
        bytes: how many there are.
    """

    set: str
    repository: str
    commit: str
    path: str
    sha256: str
    bytes: int

    @property
    def url(self) -> str:
        """Its address; `$LEVELFIELD_MIRROR` takes the place of GitHub's when it is set."""
        base = os.environ.get("LEVELFIELD_MIRROR") or RAW
        return f"{base.rstrip('/')}/{self.repository}/{self.commit}/{self.path}"


def data_folder() -> Path | None:
    """Returns the user's own copies of data sets: `$LEVELFIELD_DATA`."""
    folder = os.environ.get("LEVELFIELD_DATA")
    return user_path(folder) if folder else None


def cache_folder() -> Path:
    """Returns the folder of downloads: `data` in `$LEVELFIELD_CACHE` or the user's cache folder."""
    return user_cache() / "data"


def local_copy(file: Published) -> Path | None:
    """Returns the copy that `fetch` would look at, its bytes unchecked; None if there is none."""
    for folder in (data_folder(), cache_folder()):
        if folder and (path := folder / file.set / file.path).is_file():
            return path
    return None


def is_intact(file: Published, path: Path) -> bool:
    """Returns whether the bytes at `path` are those that were published."""
    return path.stat().st_size == file.bytes and sha256(path) == file.sha256


def fetch(file: Published, *, progress: Progress = no_progress) -> Path:
    """Returns a local copy with the right bytes: `$LEVELFIELD_DATA`, the cache or a download.

    An interrupted download resumes where it stopped, also in another process; the file
    appears under its name only when it is whole. Two processes never write at once.

    Args:
        file: what to fetch.
        progress: called with the number of bytes just obtained; `file.bytes` in all.

    Raises:
        FetchError: it can't be downloaded or kept, or has other bytes.
    """
    folder = data_folder()
    if folder and (path := folder / file.set / file.path).is_file():
        if not _readable_and_intact(file, path):
            raise FetchError(
                f"{path} is not the published file: its sha256 is {sha256(path)[:12]}…, "
                f"expected {file.sha256[:12]}…; replace it with {file.url}, or remove it"
            )
        progress(file.bytes)
        return path
    target = cache_folder() / file.set / file.path
    if target.is_file() and _readable_and_intact(file, target):
        progress(file.bytes)
        return target
    import filelock

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(cache_folder() / f".{file.set}.lock"):
            # another process may have fetched it while this one waited
            if not (target.is_file() and is_intact(file, target)):
                _download(file, target, progress)
            else:
                progress(file.bytes)
    except OSError as error:
        raise FetchError(
            f"{file.path} of {file.set} can't be stored in {target.parent}: "
            f"{error.strerror or error}; set $LEVELFIELD_CACHE to a writable folder"
        ) from error
    return target


def _download(file: Published, target: Path, progress: Progress) -> None:
    """Receives into `<name>.part`, and renames that when it is whole and right."""
    import requests

    part = target.with_name(target.name + ".part")
    meter = _Meter(progress)
    error: requests.RequestException | None = None
    for _ in range(_ATTEMPTS):
        resumed = part.exists()
        try:
            _receive(file, part, meter)
        except requests.RequestException as broken:
            error = broken
            if isinstance(broken, requests.HTTPError) or not part.exists():
                break
            continue
        if is_intact(file, part):
            part.replace(target)
            return
        digest = sha256(part)
        part.unlink()
        if not resumed:
            raise FetchError(
                f"{file.url} differs from the published file: sha256 {digest[:12]}…, expected "
                f"{file.sha256[:12]}…; nothing was stored. Try without a proxy, or put the right "
                f"file at {_place(file)}"
            )
    reason = _reason(error)
    raise FetchError(
        f"{file.path} of {file.set} can't be downloaded ({reason}); put it at {_place(file)}, "
        f"from {file.url}"
    ) from error


def _receive(file: Published, part: Path, meter: _Meter) -> None:
    """Appends to `part` what it lacks, or writes all of it if the server can't resume."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    if have >= file.bytes > 0:
        meter.reach(file.bytes)
        return
    # the published bytes, not a compressed form of them: only of those is a part a part
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    response = get(file.url, headers, _TIMEOUT_S)
    if response.status_code == requests.codes.requested_range_not_satisfiable:
        part.unlink()  # the server has fewer bytes, so these are of no use
    response.raise_for_status()
    starts = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    resumes = response.status_code == requests.codes.partial_content and (
        starts is not None and int(starts[1]) == have
    )
    have = have if resumes else 0
    with part.open("ab" if resumes else "wb") as out:
        meter.reach(have)
        chunks = response.iter_content(_CHUNK)
        while chunk := within(_TIMEOUT_S, partial(next, chunks, b"")):
            out.write(chunk)
            have += len(chunk)
            meter.reach(min(have, file.bytes))
            if have > file.bytes:
                break  # some other page: its hash will say so
    # not after an error: closing waits for whoever still reads
    response.close()
    if have < file.bytes and response.headers.get("Content-Length") is None:
        raise requests.ConnectionError("the connection ended too early")


class _Meter:
    """Tells progress of the most bytes reached, so that a new start is not counted twice."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._told = 0

    def reach(self, total: int) -> None:
        if total > self._told:
            self._progress(total - self._told)
            self._told = total


def _place(file: Published) -> str:
    return str((data_folder() or Path("$LEVELFIELD_DATA")) / file.set / file.path)


def _reason(error: Exception | None) -> str:
    import requests

    match error:
        case requests.HTTPError(response=response) if response is not None:
            return f"the server says {response.status_code} {response.reason}"
        case requests.Timeout():
            return "no answer in time"
        case requests.exceptions.ProxyError():
            return "the proxy refuses the request"
        case requests.exceptions.SSLError():
            return "the server's certificate is not trusted"
        case requests.ConnectionError() if "too early" in str(error):
            return "the connection breaks off"
        case requests.ConnectionError():
            return "no connection"
        case requests.exceptions.ChunkedEncodingError():
            return "the connection breaks off"
    return type(error).__name__


def _readable_and_intact(file: Published, path: Path) -> bool:
    try:
        return is_intact(file, path)
    except OSError as error:
        raise FetchError(f"{path}: can't be read: {error.strerror}") from error
