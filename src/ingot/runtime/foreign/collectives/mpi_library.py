# SPDX-License-Identifier: Apache-2.0
"""The MPI library of this machine, and the transport through it.

The library is the one that the process has loaded already (mpi4py's), else the one that
`INGOT_MPI_LIBRARY` names, else the first of the usual names that the system or this Python's
environment has. Its handles are numbers of the standard's ABI, numbers of MPICH's, or addresses of
Open MPI's objects. Invariant: if MPI_Init was called here, MPI_Finalize is too, once no request is
pending.

Source: MPI 5.0, chapter 20 (application binary interface); mpi.h of MPICH 4 and Open MPI 5.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import replace
from functools import cache
from typing import Any

from ingot.runtime.foreign.collectives.mpi import RANK_BITS, Mpi
from ingot.runtime.foreign.collectives.progress import FAREWELL
from ingot.runtime.foreign.collectives.records import COMPARED_WORDS, HEADER_WORDS
from ingot.runtime.foreign.collectives.rendezvous import LinkRow
from ingot.support.diagnostics import UnsupportedError
from ingot.support.flags import MPI_LIBRARY
from ingot.support.records import record

_NAMES = ("libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.12", "libmpi.so.40")
_FUNCTIONS = {
    "send": "MPI_Isend",
    "receive": "MPI_Irecv",
    "test": "MPI_Test",
    "cancel": "MPI_Cancel",
    "wait": "MPI_Wait",
    "forget": "MPI_Request_free",
}
_VERSION_BYTES = 8192
_MULTIPLE = {"standard": 4096, "mpich": 3, "openmpi": 3}
_ERRORS_RETURN = {"standard": 0x143, "mpich": 0x54000001, "openmpi": "ompi_mpi_errors_return"}
_BYTE = {"standard": 0x247, "mpich": 0x4C00010D, "openmpi": "ompi_mpi_byte"}
_WORLD = {"standard": 0x101, "mpich": 0x44000000, "openmpi": "ompi_mpi_comm_world"}
_NO_STATUS = {"standard": 0, "mpich": 1, "openmpi": 0}


@record
class Library:
    """A library that is initialized.

    Attributes:
        is_ours: whether it was initialized here.
        rank: this process's rank.
        size: the number of processes.
    """

    functions: ctypes.CDLL
    abi: str
    is_ours: bool
    rank: int = 0
    size: int = 0

    @property
    def world(self) -> ctypes.c_void_p:
        """MPI_COMM_WORLD, as an argument of the library's functions."""
        return ctypes.c_void_p(self.constant(_WORLD))

    def constant(self, values: dict[str, Any]) -> int:
        """Return a handle."""
        value = values[self.abi]
        if isinstance(value, str):
            return ctypes.addressof(ctypes.c_char.in_dll(self.functions, value))
        return value

    def record(self) -> Any:
        """Return the record for native functions, which must be held while they use it."""
        made = Mpi.c_layout.structure()
        for field, name in _FUNCTIONS.items():
            function = getattr(self.functions, name)
            setattr(made, field, ctypes.cast(function, ctypes.c_void_p).value)
        made.byte, made.communicator = self.constant(_BYTE), self.constant(_WORLD)
        made.no_status = _NO_STATUS[self.abi]
        words = (ctypes.c_int64 * HEADER_WORDS)()
        words[COMPARED_WORDS - 1] = FAREWELL
        made.farewell, made.kept = ctypes.addressof(words), words
        return made


def rank_link(rank: int, here: int, there: int, num_devices: int) -> LinkRow:
    """Return the link from a device of this process to one of the process with a rank."""
    outgoing, incoming = here * num_devices + there, there * num_devices + here
    return LinkRow(outgoing << RANK_BITS | rank, incoming << RANK_BITS | rank)


@cache
def finalize() -> None:
    """Finalize MPI if `mpi_library` initialized it; wait for the other processes.

    Only the first call does. No request may be pending.
    """
    if mpi_library.cache_info().currsize and mpi_library().is_ours:
        mpi_library().functions.MPI_Finalize()


@cache
def mpi_library() -> Library:
    """Return the machine's MPI library; the first call initializes it.

    Raises:
        UnsupportedError: INGOT0519, there is none, or it does not support calls by several threads.
    """
    functions = _load()
    abi = _abi_of(functions)
    flag, provided = ctypes.c_int(), ctypes.c_int()
    functions.MPI_Initialized(ctypes.byref(flag))
    if flag.value:
        functions.MPI_Query_thread(ctypes.byref(provided))
    else:
        functions.MPI_Init_thread(None, None, _MULTIPLE[abi], ctypes.byref(provided))
    if provided.value < _MULTIPLE[abi]:
        raise _unusable("this MPI does not let several threads call it (MPI_THREAD_MULTIPLE)")
    library = Library(functions, abi, not flag.value)
    world = library.world
    functions.MPI_Comm_set_errhandler(world, ctypes.c_void_p(library.constant(_ERRORS_RETURN)))
    rank, size = ctypes.c_int(), ctypes.c_int()
    functions.MPI_Comm_rank(world, ctypes.byref(rank))
    functions.MPI_Comm_size(world, ctypes.byref(size))
    return replace(library, rank=rank.value, size=size.value)


def _load() -> ctypes.CDLL:
    process = ctypes.CDLL(None)
    if hasattr(process, "MPI_Init_thread"):
        return process
    named = MPI_LIBRARY.value()
    tried = [named] if named else [*_loaded(), *_candidates()]
    problems: list[str] = []
    for name in tried:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as problem:
            problems.append(str(problem))
    raise _unusable("there is no MPI library on this machine", *problems)


def _loaded() -> list[str]:
    """Return the MPI libraries that this process has loaded by other means, as mpi4py does."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        paths = {line.split()[-1] for line in file if "/libmpi" in line}
    return sorted(
        path for path in paths if os.path.basename(path).startswith(("libmpi.", "libmpi_abi."))
    )


def _candidates() -> list[str]:
    here = os.path.join(sys.prefix, "lib")
    return [*_NAMES, *(os.path.join(here, name) for name in _NAMES)]


def _abi_of(functions: ctypes.CDLL) -> str:
    if hasattr(functions, "MPI_Abi_get_version") and not hasattr(functions, "ompi_mpi_byte"):
        major, minor = ctypes.c_int(-1), ctypes.c_int(-1)
        functions.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
        if major.value >= 1:
            return "standard"
    if hasattr(functions, "ompi_mpi_comm_world"):
        return "openmpi"
    text, size = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int()
    functions.MPI_Get_library_version(text, ctypes.byref(size))
    name = text.value.decode(errors="replace")
    if name.startswith(("MPICH", "MVAPICH", "Intel(R) MPI", "CRAY MPICH")):
        return "mpich"
    raise _unusable(f"the ABI of this MPI library is not known: {name.splitlines()[0]}")


def _unusable(why: str, *notes: str) -> UnsupportedError:
    return UnsupportedError(
        why,
        code="INGOT0519",
        notes=notes,
        hint="pip install ingot-compiler[mpi], or set INGOT_MPI_LIBRARY; without "
        "INGOT_COLLECTIVES=mpi processes talk through sockets",
    )
