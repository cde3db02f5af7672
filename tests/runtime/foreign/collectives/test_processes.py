# SPDX-License-Identifier: Apache-2.0
"""Devices of several processes: what goes wrong between them is told, and nobody waits forever."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from tests.runtime.foreign.collectives.networks import run_as_processes
from tests.runtime.foreign.collectives.programs import APART, one_each

import ingot
from ingot.client.pjrt.processes import Processes
from ingot.runtime.foreign.collectives import links
from ingot.runtime.foreign.collectives.links import Host, Links, own_addresses, read_host
from ingot.runtime.foreign.collectives.rendezvous import NO_LINK, LinkRow, partners_of
from ingot.support.diagnostics import ExecutionError
from ingot.support.flags import PROCESS_TIMEOUT, override


def sum_of_two(dims: tuple[int, ...] = (3,)) -> tuple[Any, list[list[Any]]]:
    size = ",".join(map(str, dims))
    body = f"ROOT r = f32[{size}] all-reduce(x), replica_groups={{}}, to_apply=add"
    text, inputs = one_each(body, "f32", dims, (2, 1))
    return ingot.compile(ingot.parse_hlo(text)), inputs


@pytest.mark.parametrize("can_read", [True, False])
def test_more_bytes_than_a_socket_holds(can_read: bool) -> None:
    executable, inputs = sum_of_two((3000, 1001))
    for got in run_as_processes(executable, inputs, [0, 1], can_read=can_read):
        np.testing.assert_array_equal(got, inputs[0][0] + inputs[1][0])


def test_another_program_is_found_before_its_data_is_taken() -> None:
    executable, inputs = sum_of_two()
    for process, problem in enumerate(run_as_processes(executable, inputs, [0, 1], [5, 6])):
        assert f"process {1 - process}: it runs another program" in str(problem)


def test_a_process_that_fails_ends_the_waiting_of_others() -> None:
    executable, inputs = sum_of_two()
    inputs[1] = [np.zeros(4, np.float32)]
    start = time.monotonic()
    waited, failed = run_as_processes(executable, inputs, [0, 1])
    assert "process 1: an execution failed in it" in str(waited)
    assert isinstance(failed, ExecutionError)
    assert time.monotonic() - start < PROCESS_TIMEOUT.value() / 2


def test_a_process_that_never_comes_is_named() -> None:
    inputs = [[np.zeros(3, np.float32)]] * 2
    with override(PROCESS_TIMEOUT, 1):
        waited, _ = run_as_processes(ingot.compile(ingot.parse_hlo(APART)), inputs, [0, 1])
    assert "process 1: waited for another device in vain" in str(waited)


CHAIN = """
  c = f32[3] custom-call(x), custom_call_target="hinders_on_ones", custom_call_has_side_effect=true
  p = f32[3] collective-permute(c), source_target_pairs={{1,2}}
  s = f32[3] add(p, x)
  ROOT r = f32[3] collective-permute(s), source_target_pairs={{2,0}}
"""
"""Device 2 waits for device 1, and device 0 for device 2 only."""


def in_a_chain(hinder: Callable[[], None], can_read: bool) -> list[Any]:
    """Return what three processes of one device get if process 1 does something else first."""

    def hinders_on_ones(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if x[0] == 1:
            hinder()
        return x

    ingot.register_custom_call_target("hinders_on_ones", hinders_on_ones)
    text, _ = one_each(CHAIN, "f32", (3,), (3, 1))
    inputs = [[np.full(3, device, np.float32)] for device in range(3)]
    executable = ingot.compile(ingot.parse_hlo(text))
    return run_as_processes(executable, inputs, [0, 1, 2], can_read=can_read)


@pytest.mark.parametrize("can_read", [True, False])
def test_all_name_the_process_that_failed_first(can_read: bool) -> None:
    def fail() -> None:
        time.sleep(0.2)
        raise ValueError("these are ones")

    waited, failed, others = in_a_chain(fail, can_read)
    assert "these are ones" in str(failed)
    assert "process 1: an execution failed in it" in str(waited)
    assert "process 1: an execution failed in it" in str(others)


@pytest.mark.parametrize("can_read", [True, False])
def test_all_name_the_process_that_does_not_come(can_read: bool) -> None:
    with override(PROCESS_TIMEOUT, 1):
        waited, _, others = in_a_chain(lambda: time.sleep(4), can_read)
    assert "process 1: waited for another device in vain" in str(waited)
    assert "process 1: waited for another device in vain" in str(others)


def test_a_process_that_cannot_be_reached_does_not_keep_the_others_waiting() -> None:
    asked: list[int] = []

    class Reach:
        transport = None

        def link(self, here: int, there: int, process: int, seconds: float) -> LinkRow:
            asked.append(process)
            assert 0 <= seconds <= PROCESS_TIMEOUT.value()
            if process == 1:
                raise ExecutionError("there is no connection to process 1", code="INGOT0518")
            return NO_LINK

    processes = Processes(0, (1, 1, 1), cast(Any, Reach()))
    with pytest.raises(ExecutionError, match="process 1"):
        processes.network([0, 1, 2])
    assert asked == [1, 2]


@pytest.mark.parametrize(
    "processes", [[0, 1], [0, 0, 1], [1, 0, 0, 1, 1], [2, 2, 2, 0, 1, 1, 0], [0, 3, 3, 3, 3, 1]]
)
def test_every_device_greets_every_other_process_and_is_greeted(processes: list[int]) -> None:
    pairs: set[tuple[int, int]] = set()
    for process in set(processes):
        here = [device for device, owner in enumerate(processes) if owner == process]
        rows = partners_of(process, processes)
        assert len({len(row) for row in rows}) == 1
        for device, row in zip(here, rows, strict=True):
            partners = [one for one in row if one >= 0]
            assert {processes[one] for one in partners} == set(processes) - {process}
            assert len(set(partners)) == len(partners)
            pairs |= {(device, one) for one in partners}
    assert pairs == {(other, one) for one, other in pairs}
    assert partners_of(7, processes) == []


def both_ends(first: Links, second: Links, host: Host) -> list[LinkRow]:
    found = [NO_LINK, NO_LINK]

    def wait() -> None:
        found[1] = second.link(1, 0, first.host, 0, 10)

    thread = threading.Thread(target=wait)
    thread.start()
    found[0] = first.link(0, 1, host, 1, 10)
    thread.join()
    return found


@pytest.mark.parametrize("machine", ["this", "another"])
def test_links_by_unix_socket_and_by_tcp(machine: str) -> None:
    first, second = Links(), Links("127.0.0.1:1234")
    host = read_host(second.host.text())
    assert host == second.host
    assert "127.0.0.1" in host.addresses
    ends = both_ends(first, second, host if machine == "this" else replace(host, machine="x"))
    assert [end.reader for end in ends] == [os.getpid()] * 2
    for end in ends:
        assert (end.sent != 0) == (end.got != 0) == (machine == "this")
    here, there = socket.socket(fileno=ends[0].outgoing), socket.socket(fileno=ends[1].incoming)
    back, forth = socket.socket(fileno=ends[1].outgoing), socket.socket(fileno=ends[0].incoming)
    family = socket.AF_UNIX if machine == "this" else socket.AF_INET
    assert here.family == there.family == family
    here.sendall(b"data")
    assert there.recv(4) == b"data"
    back.sendall(b"more")
    assert forth.recv(4) == b"more"
    second.cut([0])
    assert here.recv(1) == forth.recv(1) == b""
    for each in (here, there, back, forth):
        each.detach()
    assert first.link(0, 1, host, 1, 10) == ends[0]


def test_a_stranger_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Links(), Links()
    monkeypatch.setattr(links, "_GREETING_SECONDS", 1)
    with pytest.raises(ExecutionError, match=r"INGOT0518.*process 1.*does not answer"):
        first.link(0, 1, replace(second.host, secret="0" * 32), 1, 10)
    with pytest.raises(ExecutionError, match=r"INGOT0518.*process 0.*not connected"):
        second.link(1, 0, first.host, 0, 0.2)
    with socket.create_connection(("127.0.0.1", second.host.port)) as silent:
        assert silent.recv(1) == b""


def test_a_process_that_is_gone_cannot_be_linked() -> None:
    host = replace(Links().host, path="ingot-nobody")
    with pytest.raises(ExecutionError, match=r"INGOT0518.*process 1.*does not answer"):
        Links().link(0, 1, host, 1, 10)


def test_the_addresses_that_others_are_told() -> None:
    for towards in ("127.0.0.1:80", "no.such.host.invalid:80", ""):
        found = own_addresses(towards)
        assert found
        assert len(set(found)) == len(found)
        assert [a.startswith("127.") for a in found] == sorted(a.startswith("127.") for a in found)


def test_the_next_address_is_tried() -> None:
    first, second = Links(), Links("127.0.0.1:1234")
    host = replace(second.host, machine="x", addresses=("no.such.host.invalid", "127.0.0.1"))
    assert all(end.outgoing >= 0 for end in both_ends(first, second, host))
