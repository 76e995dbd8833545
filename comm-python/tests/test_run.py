"""The results, exceptions and output of `run`."""

from __future__ import annotations

import contextlib
import io
import operator
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import calls
import cobre_comm as cc
import pytest
from cobre_comm._output import Output

HERE = Path(__file__).parent
BACKENDS = ["shm", "tcp"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_results_come_in_rank_order(backend: str, ranks: int) -> None:
    found = cc.run(calls.place, ranks, args=(1, "b"), kwargs={"c": [2]}, backend=backend)
    assert found == [(rank, ranks, backend, (1, "b"), {"c": [2]}) for rank in range(ranks)]


def test_lines_reach_whatever_the_streams_are(capsys: pytest.CaptureFixture[str]) -> None:
    cc.run(calls.speak, ranks=2)
    captured = capsys.readouterr()
    expected = [f"[{rank}] line {line} of {rank} \u00e9" for rank in range(2) for line in range(3)]
    assert sorted(captured.out.splitlines()) == expected
    assert sorted(captured.err.splitlines()) == ["[0] complaint of 0", "[1] complaint of 1"]
    replaced = io.StringIO()
    with contextlib.redirect_stdout(replaced):
        cc.run(calls.speak, ranks=1)
    assert replaced.getvalue().splitlines() == expected[:3]


def test_a_stream_needs_no_more_than_print_does() -> None:
    class Bare:
        def __init__(self) -> None:
            self.text = ""

        def write(self, text: str) -> None:
            self.text += text

    bare: Any = Bare()
    with contextlib.redirect_stdout(bare):
        cc.run(calls.speak, ranks=1)
    assert bare.text.startswith("[0] line 0 of 0")


class Opener(io.StringIO):
    """Opens a gate once it has seen a text."""

    def __init__(self, text: str, gate: Path) -> None:
        super().__init__()
        self.text, self.gate = text, gate

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.text in self.getvalue():
            self.gate.touch()
        return written


def test_a_progress_bar_of_rank_0_moves_while_it_works(tmp_path: Path) -> None:
    # The rank continues only when its bar has been seen, and the bar does not end a line.
    seen = Opener("50%", tmp_path / "gate")
    with contextlib.redirect_stdout(seen):
        cc.run(calls.progress, ranks=2, args=(str(seen.gate),), timeout=60)
    assert seen.getvalue() == "\r[0] 10%\r[0] 50%\r[0] 100%\n"


def test_a_line_that_is_open_is_not_torn_by_another_rank(tmp_path: Path) -> None:
    seen = Opener("half", tmp_path / "gate")
    with contextlib.redirect_stdout(seen):
        cc.run(calls.mixed, ranks=2, args=(str(seen.gate),), timeout=60)
    assert seen.getvalue() == "[0] half\n[1] whole\n[0]  and half\n"


def test_the_end_of_a_torn_line_is_no_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    half, whole, end = (0, False, b"half", False), (1, False, b"whole", True), (0, False, b"", True)
    for piece in [half, whole, end, end]:
        output.write([piece])
    assert capsys.readouterr().out == "[0] half\n[1] whole\n[0] \n"


def test_a_character_in_two_pieces_is_whole_whatever_comes_in_between(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output()
    first, second = "\u00e9".encode()
    for piece in [(0, False, bytes([first]), False), (0, True, b"line", True), (0, False, bytes([second]), True)]:
        output.write([piece])
    captured = capsys.readouterr()
    assert "\u00e9" in captured.out
    assert "\ufffd" not in captured.out
    assert captured.err == "[0] line\n"


def test_much_output_arrives_whole(capsys: pytest.CaptureFixture[str]) -> None:
    cc.run(calls.flood, ranks=2, args=(20_000,))
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"[{rank}] {rank} {line} {'x' * 80}" for rank in range(2) for line in range(20_000))


def test_an_error_of_the_callers_stream_ends_the_job(tmp_path: Path) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("the disk is full")

    with contextlib.redirect_stdout(Full()), pytest.raises(OSError, match="the disk is full"):
        cc.run(calls.flood, ranks=2, args=(20_000,), timeout=60)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [calls.raises, calls.raises_later])
@pytest.mark.parametrize("rank", [0, 2])
def test_the_traceback_is_that_of_the_rank_that_raised(backend: str, function: Any, rank: int) -> None:
    with pytest.raises(cc.WorkerError) as caught:
        cc.run(function, ranks=3, args=(rank,), backend=backend)
    error = caught.value
    assert error.rank == rank
    assert str(error).startswith(f"rank {rank} raised ValueError: bad luck of {rank}\n")
    assert error.traceback is not None
    assert "in raises\n" in error.traceback
    assert "_worker.py" not in error.traceback
    assert isinstance(error.__cause__, ValueError)
    assert error.exit_code == 1


def test_an_exception_that_cannot_travel_is_still_told() -> None:
    with pytest.raises(cc.WorkerError, match=r"rank 0 raised calls\.Strange: 1 and 2") as caught:
        cc.run(calls.strange, ranks=1)
    assert caught.value.__cause__ is None


def test_an_exception_that_ends_whoever_unpickles_it_does_not_end_the_caller() -> None:
    with pytest.raises(cc.WorkerError, match=r"^rank 0 raised calls\.Exits: on its way") as caught:
        cc.run(calls.raises_what_exits, ranks=1)
    assert caught.value.__cause__ is None
    with pytest.raises(cc.WorkerError, match=r"the result of rank 0 cannot be unpickled here: SystemExit\(3\)"):
        cc.run(calls.returns_what_exits, ranks=1)


def test_a_rank_may_close_its_streams() -> None:
    assert cc.run(calls.closes, ranks=1, args=(False,)) == [1]
    with pytest.raises(cc.WorkerError, match=r"^rank 0 raised ValueError: after the streams\n") as caught:
        cc.run(calls.closes, ranks=1, args=(True,))
    assert "_worker.py" not in str(caught.value)


def test_what_a_rank_printed_before_it_raised_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    # Neither stream has ended its line.
    with pytest.raises(cc.WorkerError, match=r"^rank 0 raised ValueError: in the middle\n") as caught:
        cc.run(calls.raises_within_a_line, ranks=1)
    captured = capsys.readouterr()
    for stream, words in [(captured.out, "half a line"), (captured.err, "half a complaint")]:
        assert f"[0] {words}" in stream
        assert words in caught.value.output


def test_a_function_may_change_the_environment() -> None:
    with pytest.raises(cc.WorkerError, match=r"^rank 1 raised ValueError: bad luck of 1"):
        cc.run(calls.loses_the_environment, ranks=2)


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    with pytest.raises(cc.WorkerError, match=r"rank 0 was killed by a signal without a name \(signal 40\)") as caught:
        cc.run(calls.kills, ranks=1, args=(0, 40))
    assert caught.value.signal == 40


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_rank_is_named_with_its_signal(backend: str) -> None:
    with pytest.raises(cc.WorkerError, match=r"rank 1 was killed by SIGKILL \(signal 9\)") as caught:
        cc.run(calls.kills, ranks=3, args=(1, int(signal.SIGKILL)), backend=backend)
    assert (caught.value.rank, caught.value.signal) == (1, signal.SIGKILL)
    assert caught.value.output == "rank 1 is here\n"


def test_a_crash_tells_where_python_was() -> None:
    with pytest.raises(cc.WorkerError, match="rank 1 was killed by SIGSEGV") as caught:
        cc.run(calls.crashes, ranks=2)
    assert caught.value.traceback is not None
    assert "in crashes" in caught.value.traceback


@pytest.mark.parametrize("code", [0, 3, None, "words"])
def test_sys_exit_is_no_result(code: Any) -> None:
    with pytest.raises(cc.WorkerError, match=r"rank 1 called sys\.exit") as caught:
        cc.run(calls.exits, ranks=2, args=(1, code))
    assert repr(code) in str(caught.value)


@pytest.mark.parametrize("code", [0, 3])
def test_os_exit_is_no_result(code: int) -> None:
    with pytest.raises(cc.WorkerError, match=f"rank 1 exited with code {code} without a result"):
        cc.run(calls.exits_hard, ranks=2, args=(1, code))


def test_an_exit_code_after_a_return_is_told_as_such() -> None:
    with pytest.raises(cc.WorkerError, match=r"^rank 1 returned, but then its process exited with code 3: .*atexit") as caught:
        cc.run(calls.exits_at_the_end, ranks=2)
    assert caught.value.exit_code == 3


def test_a_result_without_room_says_where_it_lacks() -> None:
    stored = "the result, of type bytes, cannot be stored"
    words = rf"^rank 0 cannot send its result: {stored}: .*File too large; free space .* or set TMPDIR"
    with pytest.raises(cc.WorkerError, match=words):
        cc.run(calls.without_room, ranks=1, args=(1 << 16, False))


def test_an_exception_without_room_is_still_shown() -> None:
    with pytest.raises(cc.WorkerError, match=r"^rank 0 exited with code 1 without a result: .*TMPDIR\) was full") as caught:
        cc.run(calls.without_room, ranks=1, args=(0, True))
    assert "ValueError: of the rank\n" in caught.value.output


def test_a_folder_without_room_is_named(tmp_path: Path) -> None:
    words = rf"^OSError: cannot keep the call of the ranks in {tmp_path}: .*; free space there, or set TMPDIR to another folder$"
    program = "import resource, calls, cobre_comm as cc; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); cc.run(calls.place, 2)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, cwd=HERE)
    assert re.search(words, ended.stderr, re.MULTILINE), ended.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_timeout_shows_the_stack_of_every_rank(backend: str) -> None:
    with pytest.raises(cc.WorkerTimeout) as caught:
        cc.run(calls.hangs, ranks=2, backend=backend, timeout=3)
    assert isinstance(caught.value, TimeoutError)
    assert "in hangs" in caught.value.stacks[0]
    assert "in in_python_here" in caught.value.stacks[1]
    assert "rank 1:" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_hangs_until_the_others_give_up_is_blamed_with_its_stack(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"COBRE_{backend.upper()}_TIMEOUT_SECS", "1")
    with pytest.raises(cc.WorkerError, match=r"^rank 1 was still running when rank [02] raised .*TimedOut: barrier: ") as caught:
        cc.run(calls.hangs, ranks=3, backend=backend, timeout=60)
    error = caught.value
    assert not isinstance(error, cc.WorkerTimeout)
    assert (error.rank, error.signal, error.__cause__) == (1, signal.SIGTERM, None)
    assert "was ended with SIGTERM after " in str(error)
    assert error.traceback is not None
    assert "in in_python_here" in error.traceback
    assert error.traceback in str(error)


def test_a_rank_that_hangs_is_blamed_although_the_others_leave_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COBRE_SHM_TIMEOUT_SECS", "1")
    with pytest.raises(cc.WorkerError, match=r"^rank 1 was still running when the others failed; it was ended") as caught:
        cc.run(calls.exits_instead, ranks=3, timeout=60)
    assert "in in_python_here" in str(caught.value)


def test_a_rank_that_ignores_the_request_to_end_is_killed() -> None:
    with pytest.raises(cc.WorkerTimeout) as caught:
        cc.run(calls.ignores_terminate, ranks=1, timeout=2)
    assert "did not answer" in caught.value.stacks[0]


def test_what_a_rank_started_ends_with_it() -> None:
    for pid in cc.run(calls.leaves_a_child, ranks=2):
        assert not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.parametrize("ending", ["returns", "raises", "exits"])
def test_a_forked_child_does_not_answer_for_its_rank(ending: str) -> None:
    assert cc.run(calls.forks, ranks=2, args=(ending,), timeout=60) == ["the rank"] * 2


def test_large_results_come_back() -> None:
    size = 64 << 20
    for rank, result in enumerate(cc.run(calls.large, ranks=2, args=(size,))):
        assert (len(result), result[0], result[-1]) == (size, rank, rank)


def test_a_large_result_that_holds_a_lambda_comes_back() -> None:
    pytest.importorskip("cloudpickle")
    # So large that much of it is written before pickle reaches the lambda.
    size = 1 << 20
    for rank, (data, function) in enumerate(cc.run(calls.large_with_a_lambda, ranks=2, args=(size,))):
        assert (len(data), data[-1], function()) == (size, size - 1, rank)


def test_a_result_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(cc.WorkerError, match="rank 1 cannot send its result: the result, of type Unsendable") as caught:
        cc.run(calls.unsendable, ranks=2)
    assert "this one stays here" in str(caught.value)


def test_two_jobs_at_once_from_two_threads() -> None:
    together = threading.Barrier(2)

    def job(number: int) -> list[float]:
        together.wait(60)
        return cc.run(calls.total, ranks=2, args=(number,), backend=BACKENDS[number % 2])

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(job, [10, 21])) == [[21.0, 21.0], [43.0, 43.0]]


def test_a_rank_may_start_a_job() -> None:
    assert cc.run(calls.inner, ranks=2) == [[1.0, 1.0], [3.0, 3.0]]


def test_callables_of_the_library_travel() -> None:
    assert cc.run(operator.attrgetter("size"), ranks=2) == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"ranks": 0}, ValueError, "ranks: .* from 1 to 1024 ranks, not 0"),
        ({"ranks": -1}, ValueError, "ranks: .* not -1"),
        ({"ranks": 5000, "backend": "tcp"}, ValueError, "ranks: .* 4096"),
        ({"ranks": 2.5}, TypeError, "ranks: expected a whole number, not float"),
        ({"ranks": True}, TypeError, "ranks: .*bool"),
        ({"backend": "mpi"}, ValueError, "backend: 'mpi' is not one of 'shm', 'tcp'"),
        ({"backend": []}, TypeError, "backend: expected 'shm' or 'tcp', not list"),
        ({"backend": None}, TypeError, "backend: expected 'shm' or 'tcp', not NoneType"),
        ({"timeout": 1e300}, ValueError, r"timeout: expected at most 1e9 seconds, or None for no limit"),
        ({"timeout": 10**400}, ValueError, r"timeout: expected at most 1e9 seconds, or None for no limit"),
        ({"timeout": 0}, ValueError, "timeout: expected more than 0 seconds"),
        ({"timeout": float("nan")}, ValueError, "timeout: "),
        ({"timeout": "soon"}, TypeError, "timeout: expected seconds or None, not str"),
        ({"function": 3}, TypeError, "function: expected a function .* not int"),
        ({"args": 3}, TypeError, "args: expected a sequence"),
        ({"args": "ab"}, TypeError, r"args: expected a sequence of arguments, not str; pass \(argument,\)"),
        ({"args": {"c": 1}}, TypeError, "args: expected a sequence of arguments, not dict"),
        ({"kwargs": {1: 2}}, TypeError, "kwargs: expected the names of arguments as keys, not 1"),
        ({"kwargs": 3}, TypeError, "kwargs: expected a mapping"),
        ({"args": (calls.Unsendable(),)}, TypeError, "args: .*this one stays here"),
        ({"kwargs": {"x": calls.Unsendable()}}, TypeError, "kwargs: .*this one stays here"),
    ],
)
def test_a_wrong_argument_is_named_before_anything_starts(arguments: dict[str, Any], kind: Any, words: str) -> None:
    whole: dict[str, Any] = {"function": calls.place, "ranks": 2, **arguments}
    with pytest.raises(kind, match=words):
        cc.run(**whole)


def test_a_lambda_travels_by_value() -> None:
    pytest.importorskip("cloudpickle")
    factor = 3
    assert cc.run(lambda comm: comm.rank * factor, ranks=2) == [0, 3]


def test_a_lambda_without_cloudpickle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match=r"function: .*<lambda> cannot be sent: .*pip install cloudpickle"):
        cc.run(lambda comm: comm.rank, ranks=2)


def test_descriptors_are_given_back() -> None:
    cc.run(calls.place, ranks=2)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        cc.run(calls.place, ranks=2)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_importing_the_launcher_leaves_the_function() -> None:
    import importlib

    importlib.import_module("cobre_comm.run")
    assert callable(cc.run)
    assert cc.run(calls.total, ranks=1, args=(1,)) == [1.0]
