"""Where functions come from: scripts, modules, prompts, notebooks."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cobre_comm as cc
import pytest

SCRIPT = """
import dataclasses
import cobre_comm as cc

@dataclasses.dataclass
class Answer:
    rank: int

def work(comm, more):
    return Answer(comm.rank + more)

{guard}print(cc.run(work, ranks=2, args=(40,)))
"""

WITHOUT_CLOUDPICKLE = "import sys; sys.modules['cloudpickle'] = None\n"


def python(*words: str, stdin: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


@pytest.mark.parametrize("prefix", ["", WITHOUT_CLOUDPICKLE])
def test_a_script_needs_nothing_installed(tmp_path: Path, prefix: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(prefix + SCRIPT.format(guard='if __name__ == "__main__": '))
    for ended in (python(str(script)), python("-m", "script", cwd=tmp_path)):
        assert ended.stdout == "[Answer(rank=40), Answer(rank=41)]\n", ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_script_may_be_started_without_its_streams(tmp_path: Path, closed: str) -> None:
    script = tmp_path / "script.py"
    # The script writes its answer to a file.
    guard = 'if __name__ == "__main__": print = lambda answer: open("answer", "w").write(repr(answer))\nif __name__ == "__main__": '
    script.write_text(SCRIPT.format(guard=guard))
    command = ["sh", "-c", f'exec "$0" script.py {closed}', sys.executable]
    subprocess.run(command, timeout=120, check=True, cwd=tmp_path)
    assert (tmp_path / "answer").read_text() == "[Answer(rank=40), Answer(rank=41)]"


NESTED = """
import multiprocessing, sys
import cobre_comm as cc

def leaf(comm, n):
    return n + comm.rank

def job(n):
    return cc.run(leaf, ranks=2, args=(n,))

def work(comm):
    return job(10 * comm.rank)

if __name__ == "__main__":
    if sys.argv[1] == "run":
        print(cc.run(work, ranks=2))
    else:
        with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
            print(pool.map(job, [0, 10]))
"""


@pytest.mark.parametrize("inside", ["run", "spawn", "fork"])
def test_a_script_may_run_its_functions_inside_of_another_process(tmp_path: Path, inside: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(NESTED)
    ended = python(str(script), inside)
    assert ended.stdout == "[[0, 1], [10, 11]]\n", ended.stderr


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(guard=""))
    ended = python(str(script))
    assert ended.returncode == 1
    assert 'put the call below `if __name__ == "__main__":`' in ended.stderr


@pytest.mark.parametrize("way", ["-c", "-i", "stdin"])
def test_a_prompt_sends_functions_by_value(way: str) -> None:
    pytest.importorskip("cloudpickle")
    text = SCRIPT.format(guard="")
    ended = python("-c", text) if way == "-c" else python(*([way] if way == "-i" else []), stdin=text)
    assert "[Answer(rank=40), Answer(rank=41)]\n" in ended.stdout, ended.stderr


def test_a_prompt_without_cloudpickle_says_what_to_install() -> None:
    ended = python("-c", WITHOUT_CLOUDPICKLE + SCRIPT.format(guard=""))
    assert ended.returncode == 1
    assert "TypeError: function: work cannot be sent" in ended.stderr
    assert "pip install cloudpickle" in ended.stderr


@pytest.mark.parametrize("word", ["__main__", "__mp_main__"])
def test_an_argument_may_hold_the_name_of_the_script(word: str) -> None:
    program = f"import cobre_comm as cc, calls; print(cc.run(calls.place, ranks=1, args=({word!r}, [b'x{word}x'])))"
    ended = python("-c", WITHOUT_CLOUDPICKLE + program, cwd=Path(__file__).parent)
    assert ended.stdout == f"[(0, 1, 'shm', ({word!r}, [b'x{word}x']), {{}})]\n", ended.stderr


def test_an_argument_of_the_prompt_is_still_noticed() -> None:
    program = "import cobre_comm as cc, operator\nclass Mine: pass\ncc.run(operator.attrgetter('rank'), ranks=1, args=([Mine()],))"
    ended = python("-c", WITHOUT_CLOUDPICKLE + program)
    assert "TypeError: args: tuple cannot be sent: it is defined in a notebook or at a prompt" in ended.stderr


CUSTOMIZE = """
import os, sys, time

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            open(os.environ["GATE"] + os.environ["RANK"], "w").close()
            time.sleep(600)

if "RANK" in os.environ:
    sys.meta_path.insert(0, Late())
"""


def test_an_interrupt_while_ranks_start_shows_one_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CUSTOMIZE)
    # A background process of a script ignores SIGINT, and Python keeps that.
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{handler}; import operator, cobre_comm as cc; cc.run(operator.attrgetter('rank'), ranks=2)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GATE": str(tmp_path / "gate")}
    job = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment)
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("gate*"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    _, shown = job.communicate(timeout=60)
    assert shown.splitlines()[-1] == "KeyboardInterrupt"
    assert shown.count("Traceback") == 1
    assert "[0]" not in shown


@pytest.mark.parametrize("backend", ["shm", "tcp"])
def test_the_launcher_of_the_package_starts_scripts(tmp_path: Path, backend: str) -> None:
    script = tmp_path / "ranks.py"
    script.write_text("import cobre_comm as cc\nwith cc.connect() as comm: print(comm.backend, comm.rank, comm.size)\n")
    ended = python("-m", "cobre_comm.run", "-n", "2", "--backend", backend, str(script))
    assert sorted(ended.stdout.splitlines()) == [f"[0] {backend} 0 2", f"[1] {backend} 1 2"], ended.stderr


def test_the_launcher_is_a_program_too() -> None:
    program = Path(sys.executable).parent / "comm-run"
    ended = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("comm-run ")
    ended = subprocess.run([program, "explain"], capture_output=True, text=True, timeout=60, check=True)
    assert "local" in ended.stdout


def test_a_module_that_fails_on_the_ranks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'import os\nif "COBRE_JOB_ID" in os.environ:\n    raise RuntimeError("not on a rank")\ndef work(comm): pass\n'
    (tmp_path / "fails_on_ranks.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    function = importlib.import_module("fails_on_ranks").work
    with pytest.raises(cc.WorkerError, match=r"rank [01] raised RuntimeError: not on a rank\n") as caught:
        cc.run(function, ranks=2)
    assert "fails_on_ranks.py" in str(caught.value)
