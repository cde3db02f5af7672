# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled objects: in memory and on disk, by content.

Called by `jit` only. The key is a hash of everything that determines the object (IR text, triple,
CPU, features, pipeline, LLVM version), so an entry is never stale.

Invariant: a file is used only if nobody but this user or root can have written it
(`support.trusted_files`) and if its checksum, over key and object, is right: a damaged, renamed,
linked or foreign entry is a miss, and the next write replaces it. A write is a rename, and a failed
one is no error (read-only home, full disk). A folder that others may write is not used, with one
warning. `INGOT_CACHE_DIR` moves the cache, `INGOT_CACHE=0` disables the disk, `INGOT_CACHE_MB` caps
it. See docs/security.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from ingot.support import flags
from ingot.support.forking import ForkLock
from ingot.support.regex import regex
from ingot.support.trusted_files import distrust, is_trusted_file, make_folders, read_trusted

_MAGIC = b"INGOTOBJ2"
_DIGEST_BYTES = 32
_HEAD_BYTES = len(_MAGIC) + _DIGEST_BYTES
_MOST_BYTES = 256 << 20
"""Larger objects are not stored on disk, so a larger file is not one of the cache's."""
_MEMORY_BYTES = 32 << 20
_SWEPT = "swept"
"""A file whose modification time is that of the last sweep."""
_WRITES_PER_SWEEP = 1024
_SECONDS_PER_SWEEP = 3600
_FOLDER = regex("[0-9a-f]{2}")
_ENTRY = regex(r"[0-9a-f]{2,64}\.o")
_TEMPORARY_PREFIX, _TEMPORARY_SUFFIX = "ingot-", ".tmp"


class ObjectCache:
    """Bytes by key; two levels, thread-safe. `directory=None`: memory only."""

    def __init__(self, directory: Path | None, disk_bytes: int = 512 << 20) -> None:
        """Use `directory` (made on the first write), at most `disk_bytes` of it."""
        self.directory = directory
        self.disk_bytes = disk_bytes
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._memory_bytes = 0
        self._lock = ForkLock()
        self._writes = 0
        self._trusted: bool | None = None

    @staticmethod
    def key(*parts: str) -> str:
        """Return the key of an object made from `parts`."""
        digest = hashlib.sha256()
        for part in parts:
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "little"))
            digest.update(encoded)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the object, or None."""
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return found
        data = self._read(key)
        if data is not None:
            self._remember(key, data)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep the object in memory and on disk."""
        self._remember(key, data)
        if self.directory is not None:
            with contextlib.suppress(OSError):
                self._write(self.directory, key, data)

    def clear_memory(self) -> None:
        """Drop the entries in memory; the disk keeps its entries."""
        with self._lock:
            self._memory.clear()
            self._memory_bytes = 0

    def _remember(self, key: str, data: bytes) -> None:
        with self._lock:
            if key in self._memory:
                return
            self._memory[key] = data
            self._memory_bytes += len(data)
            while self._memory_bytes > _MEMORY_BYTES and len(self._memory) > 1:
                _, dropped = self._memory.popitem(last=False)
                self._memory_bytes -= len(dropped)

    def _path(self, directory: Path, key: str) -> Path:
        return directory / "objects" / key[:2] / f"{key}.o"

    def _is_usable(self, directory: Path) -> bool:
        """Whether the folder is there and trusted; the first time that it is not, warn."""
        with self._lock:
            if self._trusted is not None:
                return self._trusted
            reason = distrust(directory)
            if reason is None:
                return False
            self._trusted = not reason
        if reason:
            warnings.warn(
                f"compiled objects are not kept in {directory}: {reason}. Who can write there "
                "could make this process execute their code. Set INGOT_CACHE_DIR to a folder of "
                "your own, or INGOT_CACHE=0",
                flags.IngotWarning,
                stacklevel=2,
            )
        return not reason

    def _read(self, key: str) -> bytes | None:
        if self.directory is None or not self._is_usable(self.directory):
            return None
        content = read_trusted(self._path(self.directory, key), _HEAD_BYTES + _MOST_BYTES)
        if content is None:
            return None
        data = content[_HEAD_BYTES:]
        return data if content[:_HEAD_BYTES] == _head(key, data) else None

    def _write(self, directory: Path, key: str, data: bytes) -> None:
        if self._trusted is None:
            make_folders(directory)
        if len(data) > _MOST_BYTES or not self._is_usable(directory):
            return
        path = self._path(directory, key)
        make_folders(path.parent)
        handle, temporary = tempfile.mkstemp(_TEMPORARY_SUFFIX, _TEMPORARY_PREFIX, path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_head(key, data) + data)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._writes += 1
        is_first = self._writes == 1 and self._is_swept_rarely(directory)
        if is_first or self._writes % _WRITES_PER_SWEEP == 0:
            self.sweep()

    def _is_swept_rarely(self, directory: Path) -> bool:
        """Whether no process has swept recently: a sweep reads every file's status."""
        try:
            age = time.time() - os.lstat(directory / _SWEPT).st_mtime
            return abs(age) > _SECONDS_PER_SWEEP
        except OSError:
            return True

    def sweep(self) -> None:
        """Remove the longest unused entries until the disk limit holds, and leftovers of writers.

        Only files with the cache's own names are touched, and no link is followed.
        """
        if self.directory is None or not self._is_usable(self.directory):
            return
        with contextlib.suppress(OSError):
            _touch(self.directory / _SWEPT)
        entries = sorted(_entries(self.directory / "objects"))
        total = sum(size for _, size, _ in entries)
        long_ago = time.time() - _SECONDS_PER_SWEEP
        for used, size, path in entries:
            is_left = path.endswith(_TEMPORARY_SUFFIX) and used < long_ago
            if total <= self.disk_bytes and not is_left:
                continue
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _head(key: str, data: bytes) -> bytes:
    """Return the header of an object on disk."""
    digest = hashlib.sha256(f"{len(key)} {key}\n".encode())
    digest.update(data)
    return _MAGIC + digest.digest()


def _touch(path: Path) -> None:
    """Set a file's time to now; create it if it is missing."""
    try:
        os.utime(path, follow_symlinks=False)
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _entries(folder: Path) -> Iterator[tuple[float, int, str]]:
    """Return (last use, bytes, path) of the cache's files; other processes may remove some."""
    for shard in () if folder.is_symlink() else _scan(folder):
        if not _FOLDER.fullmatch(shard.name) or not shard.is_dir(follow_symlinks=False):
            continue
        for entry in _scan(shard):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if is_trusted_file(entry.path, status) and _is_own_name(shard.name, entry.name):
                    yield status.st_mtime, status.st_size, entry.path


def _is_own_name(shard: str, name: str) -> bool:
    if name.startswith(_TEMPORARY_PREFIX):
        return name.endswith(_TEMPORARY_SUFFIX)
    return name.startswith(shard) and _ENTRY.fullmatch(name) is not None


def _scan(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


_default: tuple[tuple[bool, str, int], ObjectCache] | None = None
_default_lock = ForkLock()


def default_cache() -> ObjectCache:
    """Return the process's cache as the environment describes it now."""
    global _default
    settings = (flags.CACHE.value(), flags.CACHE_DIR.value(), flags.CACHE_MB.value())
    on, directory, megabytes = settings
    with _default_lock:
        if _default is None or _default[0] != settings:
            path = Path(directory) if on else None
            _default = settings, ObjectCache(path, megabytes << 20)
        return _default[1]
