# SPDX-License-Identifier: Apache-2.0
"""Files that only this user or the administrator can have written.

They are for caches of machine code: the writer of an entry decides what this process executes. A
folder is trusted as by ssh and sudo: every component of its path, links included, belongs to this
user or root, and nobody else may write it; in a sticky folder on the way (`/tmp`) others can add
names but not change ours. A group of the user's name that has only this user does not count as
somebody else: distributions that make one for each user let it write new files (umask 002). A file
is trusted on its own: it is opened without following a link or waiting for a FIFO, and must be a
regular file of this user or root that nobody else may write.

Invariant: only making folders raises (`OSError`); files that are not trusted are not read.

Source: OpenSSH's `safe_path` (misc.c).
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from functools import lru_cache
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ACCESS_LIST = "system.posix_acl_access"
_MOST_LINKS = 40
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def distrust(folder: Path) -> str | None:
    """Return why a folder is not trusted, and what to do; "" if it is, None if there is none."""
    waiting = list(reversed(Path(os.path.abspath(folder)).parts))
    path, links = waiting.pop(), 0
    try:
        reason = _distrust_component(path, os.lstat(path), is_last=not waiting)
        while waiting and not reason:
            name = waiting.pop()
            if name == "..":
                path = os.path.dirname(path)
                continue
            found = os.path.join(path, name)
            status = os.lstat(found)
            reason = _distrust_component(found, status, is_last=not waiting)
            if not stat.S_ISLNK(status.st_mode):
                path = found
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            target = Path(os.readlink(found))
            waiting += reversed(target.parts)
            if target.is_absolute():
                path = waiting.pop()
    except OSError:
        return None
    return reason


def _distrust_component(path: str, status: os.stat_result, *, is_last: bool) -> str:
    mode = status.st_mode
    if not _is_owner_trusted(status):
        return f"{path} belongs to user {status.st_uid}, this process runs as {os.geteuid()}"
    if stat.S_ISLNK(mode) or not _may_others_write(path, status):
        return ""
    if mode & stat.S_ISVTX and not is_last:
        return ""
    return f"others may write {path} (mode {stat.S_IMODE(mode):04o}); `chmod go-w {path}` ends that"


def _may_others_write(file: str | int, status: os.stat_result) -> bool:
    """Whether a mode lets anybody write besides the owner and a private group of this user.

    With an access control list, the group's bits are the union of the listed users' rights.
    """
    others = status.st_mode & _OTHERS_WRITE
    if others != stat.S_IWGRP:
        return bool(others)
    return not _is_private_group(os.geteuid(), status.st_gid) or _has_access_list(file)


@lru_cache(maxsize=64)
def _is_private_group(user: int, group: int) -> bool:
    """Whether a group has the name of this user, is the user's own, and has no other member."""
    try:
        owner, found = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    is_own = owner.pw_gid == group and found.gr_name == owner.pw_name
    return (
        is_own
        and not set(found.gr_mem) - {owner.pw_name}
        and all(other.pw_uid == user for other in pwd.getpwall() if other.pw_gid == group)
    )


def _has_access_list(file: str | int) -> bool:
    try:
        return _ACCESS_LIST in os.listxattr(file)
    except OSError as error:  # A file system without attributes has no access control lists.
        return error.errno not in (errno.ENOTSUP, errno.ENODATA)


def _is_owner_trusted(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def make_folders(folder: Path) -> None:
    """Make a folder and its missing parents, with access for this user only.

    Raises:
        OSError: one cannot be made.
    """
    missing: list[Path] = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def read_trusted(path: str | Path, most_bytes: int) -> bytes | None:
    """Return the bytes of a trusted file, and set its time of use; None for any other file.

    A file larger than `most_bytes` is not read either.
    """
    try:
        handle = os.open(path, _READ)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not is_trusted_file(handle, status) or status.st_size > most_bytes:
            return None
        with contextlib.suppress(OSError):
            os.utime(handle)
        with open(handle, "rb", buffering=0, closefd=False) as file:
            return file.read(status.st_size)
    except OSError:
        return None
    finally:
        os.close(handle)


def is_trusted_file(file: str | int, status: os.stat_result) -> bool:
    """Whether a path or open file, of this status, is regular and can be written by nobody else."""
    return (
        stat.S_ISREG(status.st_mode)
        and _is_owner_trusted(status)
        and not _may_others_write(file, status)
    )
