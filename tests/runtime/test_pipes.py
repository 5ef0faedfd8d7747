"""Descriptors of every kind are read and written, and the standard streams are kept from tools."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._runtime.stdio_descriptors import WRITE_AT_ONCE, Descriptor, reserve_stdio
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS


@contextlib.contextmanager
def open_pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


@pytest.fixture(params=["pwritev2", "poll"])
def way_of_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write without waiting as this system can, and as systems must that cannot."""

    def fail(*args: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if request.param == "poll":
        monkeypatch.setattr(os, "pwritev", fail)


@contextlib.contextmanager
def open_sockets() -> Iterator[tuple[int, int]]:
    source, sink = socket.socketpair()
    with source:
        yield source.fileno(), sink.detach()


@BOTH_LOOPS
@pytest.mark.usefixtures("way_of_writing")
@pytest.mark.parametrize("connect", [open_pipe, open_sockets], ids=["pipe", "socket"])
async def test_output_larger_than_a_pipe_arrives_complete(
    connect: Callable[[], AbstractContextManager[tuple[int, int]]],
) -> None:
    sent = bytes(range(256)) * 4096
    got = bytearray()
    with connect() as (source, sink):
        async with anyio.create_task_group() as tasks:

            async def write() -> None:
                await Descriptor(sink).write(sent)
                os.close(sink)

            tasks.start_soon(write)
            with anyio.fail_after(TIMEOUT):
                while data := await Descriptor(source).read():
                    got += data
    assert bytes(got) == sent


@pytest.mark.usefixtures("way_of_writing")
def test_writing_now_fills_the_pipe_and_does_not_wait() -> None:
    with open_pipe() as (source, sink):
        descriptor = Descriptor(sink)
        assert descriptor.write_now(b"x" * WRITE_AT_ONCE) == WRITE_AT_ONCE
        assert descriptor.write_now(b"x") == 0
        assert len(os.read(source, WRITE_AT_ONCE)) == WRITE_AT_ONCE
        assert descriptor.write_now(b"y") == 1
        os.close(source)
        with pytest.raises(BrokenPipeError):
            descriptor.write_now(b"z")


@BOTH_LOOPS
async def test_a_cancelled_read_loses_no_input() -> None:
    with open_pipe() as (source, sink):
        descriptor = Descriptor(source)
        with anyio.move_on_after(0.01) as scope:
            await descriptor.read()
        assert scope.cancelled_caught
        os.write(sink, b"later")
        assert await descriptor.read() == b"later"


async def test_a_closed_reader_is_an_error() -> None:
    with open_pipe() as (source, sink):
        os.close(source)
        with pytest.raises(BrokenPipeError), anyio.fail_after(TIMEOUT):
            await Descriptor(sink).write(b"x")


async def test_files_are_read_and_written_without_polling(tmp_path: Path) -> None:
    path = tmp_path / "file"
    sink = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        await Descriptor(sink).write(b"x" * 200_000)
    finally:
        os.close(sink)
    source = os.open(path, os.O_RDONLY)
    got = b""
    try:
        while data := await Descriptor(source).read():
            got += data
    finally:
        os.close(source)
    assert got == b"x" * 200_000


async def test_the_null_device_has_no_input_and_accepts_all_output() -> None:
    device = os.open(os.devnull, os.O_RDWR)
    try:
        descriptor = Descriptor(device)
        assert await descriptor.read() == b""
        await descriptor.write(b"gone")
    finally:
        os.close(device)


@BOTH_LOOPS
async def test_a_spurious_wakeup_is_waited_for_again() -> None:
    """Another process with the same pipe may be quicker."""
    with open_pipe() as (source, sink):
        os.set_blocking(source, False)
        os.write(sink, b"x")
        answers: list[Any] = [BlockingIOError(), b"mine"]

        def act() -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return bytes(answer)

        with anyio.fail_after(TIMEOUT):
            assert await Descriptor(source)._run_when_ready(anyio.wait_readable, act) == b"mine"


def test_while_the_streams_are_reserved_their_numbers_are_replaced() -> None:
    with (
        open_pipe() as (source, to_source),
        open_pipe() as (from_sink, sink),
        open_pipe() as (from_elsewhere, elsewhere),
    ):
        os.write(to_source, b"for the protocol")
        with reserve_stdio(source, sink, elsewhere) as pipes:
            assert os.read(source, 100) == b""
            os.write(sink, b"a print")
            subprocess.run([sys.executable, "-c", "print('a child')"], stdout=sink, check=True)
            assert os.read(from_elsewhere, 100) == b"a printa child\n"
            assert os.read(pipes.source, 100) == b"for the protocol"
            os.write(pipes.sink, b"a message")
            assert not os.get_inheritable(pipes.source)
            assert not os.get_inheritable(pipes.sink)
        os.write(sink, b" and after")
        os.write(to_source, b"again")
        assert os.read(source, 100) == b"again"
        assert os.read(from_sink, 100) == b"a message and after"
        for private_one in (pipes.source, pipes.sink):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(private_one)


def test_the_streams_are_restored_after_an_error_and_with_stdout_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def flush(self) -> None:
            raise ValueError("I/O operation on closed file")

    with open_pipe() as (source, to_source), open_pipe() as (from_sink, sink), open_pipe() as (_, elsewhere):
        monkeypatch.setattr(sys, "stdout", Closed())
        with pytest.raises(RuntimeError, match="boom"), reserve_stdio(source, sink, elsewhere):
            raise RuntimeError("boom")
        monkeypatch.undo()
        os.write(sink, b"back")
        assert os.read(from_sink, 100) == b"back"
        os.write(to_source, b"here")
        assert os.read(source, 100) == b"here"
