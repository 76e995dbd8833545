"""How each rank ended, and which rank is the cause."""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from typing import Any

from cobre_comm import _native
from cobre_comm._errors import CommError

RETURNED = "returned"
RAISED = "raised"

OWN = os.environ.get("RANK")
"""The rank of this process; read before the function can change the environment."""


class WorkerError(RuntimeError):
    """Raised by `run` when a rank fails. Its ``__cause__`` is the exception of the rank, if that can be pickled."""

    rank: int | None
    """The rank that failed first, or that hung until the others gave up; ``None`` after a timeout."""
    traceback: str | None
    """Its traceback, as text; if it hung or crashed, its stack."""
    output: str
    """Its last lines of output, 20 of each stream."""
    signal: signal.Signals | int | None
    """The signal that killed it; a number for a signal without a name, such as a real-time signal."""
    exit_code: int | None
    """Its exit code."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.rank = self.traceback = self.signal = self.exit_code = None
        self.output = ""


class WorkerTimeout(WorkerError, TimeoutError):
    """Raised by `run` when the job takes longer than its ``timeout``."""

    stacks: dict[int, str]
    """The stack of each rank that had not ended, by rank."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.stacks = {}


class NotSent(Exception):
    """Reported by a rank if its result cannot be pickled."""


class Record:
    """The record that a rank writes about its end."""

    def __init__(self, kind: str, when: float) -> None:
        self.kind = kind
        self.when = when
        self.summary = ""
        self.traceback = ""
        self.named: int | None = None
        """The other rank whose failure led to the exception."""
        self.exception: bytes | None = None

    @staticmethod
    def of(error: BaseException, when: float) -> Record:
        """Describes an exception without the frames of this package above the function."""
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
            frames = frames.tb_next
        described = traceback.TracebackException(type(error), error, frames or error.__traceback__)
        if isinstance(error, SystemExit):
            summary = f"called sys.exit({error.code!r}) instead of returning"
        elif isinstance(error, NotSent):
            summary = f"cannot send its result: {error}"
        else:
            summary = "raised " + "".join(traceback.format_exception_only(error)).strip()
        record = Record(RAISED, when)
        record.summary, record.traceback = summary, "".join(described.format())
        record.named, record.exception = _named(error), _pickled(error)
        return record


class Story:
    """How one rank ended, with the record it left."""

    def __init__(self, job: _native.Job, rank: int, end: _native.RankEnd, started: float) -> None:
        self.rank = rank
        self.end = end
        with os.fdopen(job.take_stack(rank), "rb") as file:
            file.seek(0)
            self.stack = file.read().decode(errors="replace").strip()
        self._file = os.fdopen(job.take_record(rank), "rb")
        self._file.seek(0)
        try:
            record = pickle.load(self._file)
        except Exception:
            # The rank was ended before or while it wrote the record.
            record = None
        self.record: Record | None = record
        self.when = record.when if record is not None else started + end.seconds

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    @property
    def returned(self) -> bool:
        """Whether the function returned and the process exited with 0."""
        return self.record is not None and self.record.kind == RETURNED and self.end.code == 0

    @property
    def remoteness(self) -> int:
        """The distance from the cause: 0 if this rank failed by itself, 1 if it reported another, 2 if the launcher ended it."""
        raised = self.record is not None and self.record.kind == RAISED
        if raised:
            return 1 if self.record is not None and self.record.named is not None else 0
        return 2 if self.end.asked else 0

    @property
    def was_running(self) -> bool:
        """Whether the launcher ended it before it ended by itself."""
        return self.record is None and self.end.asked

    def result(self) -> Any:
        """Returns the result of the function."""
        try:
            return pickle.load(self._file)
        except (Exception, SystemExit) as error:
            failure = WorkerError(f"the result of rank {self.rank} cannot be unpickled here: {error!r}")
            failure.rank = self.rank
            raise failure from error


def first(stories: list[Story], blamed: int | None) -> Story | None:
    """Returns the rank that caused the failure of the job, if it failed.

    For a rank that hung, the launcher's verdict counts. Such a rank leaves no record; only the reports of the ranks that waited
    for it distinguish it from a rank that was ended because the job was over.
    """
    if blamed is not None and stories[blamed].was_running:
        return stories[blamed]
    failed = [story for story in stories if not story.returned]
    return min(failed, key=lambda story: (story.remoteness, story.when), default=None)


def error(story: Story, stories: list[Story]) -> tuple[WorkerError, BaseException | None]:
    """Returns the exception that describes the failure of a rank, and the exception that the rank raised."""
    record, end = story.record, story.end
    cause = None
    if record is not None and record.kind == RAISED:
        failure = WorkerError(f"rank {story.rank} {record.summary}\n\n{record.traceback}".rstrip())
        failure.traceback = record.traceback
        cause = _unpickled(record.exception)
    else:
        where = f"\n\n{story.stack}" if story.stack else ""
        if story.was_running:
            ending = _hanging(story, stories)
        elif record is not None:
            ending = f"returned, but then its process {_ending(end)}: check code that runs at exit (atexit, other threads)"
        elif end.code is not None:
            why = "it called comm.abort or os._exit, or the folder for temporary files (TMPDIR) was full"
            ending = f"{_ending(end)} without a result: {why}"
        else:
            ending = _ending(end)
        failure = WorkerError(f"rank {story.rank} {ending}{where}")
        failure.traceback = story.stack or None
    failure.rank = story.rank
    failure.output = end.output
    failure.exit_code = end.code
    failure.signal = end.signal and _signal(end.signal)
    return failure, cause


def timeout(stories: list[Story], seconds: float | None) -> WorkerTimeout:
    """Returns the exception that shows the stack of every rank at the timeout."""
    late = [story for story in stories if not story.returned]
    stacks = {story.rank: story.stack or "(it did not answer)" for story in late}
    shown = "".join(f"\n\nrank {rank}:\n{stack}" for rank, stack in stacks.items())
    failure = WorkerTimeout(f"the job took longer than timeout={seconds} seconds; the stacks of its ranks:{shown}")
    failure.stacks = stacks
    return failure


def _hanging(story: Story, stories: list[Story]) -> str:
    """Describes which rank waited for a rank that hung, and how the rank that hung ended."""
    records = [(other.rank, other.record) for other in stories if other.record is not None]
    heard = [(record.when, f"rank {rank} {record.summary}") for rank, record in records if record.named == story.rank]
    _, others = min(heard, default=(0.0, "the others failed"))
    end = story.end
    how = "was ended with " + _signal_name(end.signal) if end.signal is not None else _ending(end)
    return f"was still running when {others}; it {how} after {end.seconds:.1f} s"


def _ending(end: _native.RankEnd) -> str:
    if end.signal is not None:
        hint = "; the system does that when it runs out of memory" if end.signal == signal.SIGKILL else ""
        return f"was killed by {_signal_name(end.signal)} (signal {end.signal}){hint}"
    if end.code is not None:
        return f"exited with code {end.code}"
    return "did not end even after SIGKILL: it is stuck in the kernel"


def _signal_name(number: int) -> str:
    named = _signal(number)
    return named.name if isinstance(named, signal.Signals) else "a signal without a name"


def _signal(number: int) -> signal.Signals | int:
    try:
        return signal.Signals(number)
    except ValueError:
        return number


def _named(error: BaseException) -> int | None:
    """Returns the other rank that an exception goes back to, if there is one."""
    own = None if OWN is None else int(OWN)
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, CommError) and link.rank not in (None, own):
            return link.rank
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return None


def _pickled(error: BaseException) -> bytes | None:
    """Returns the exception as bytes, if it can be pickled and unpickled."""
    try:
        data = pickle.dumps(error)
        return data if type(pickle.loads(data)) is type(error) else None
    except (Exception, SystemExit):
        return None


def _unpickled(data: bytes | None) -> BaseException | None:
    try:
        cause = None if data is None else pickle.loads(data)
    except (Exception, SystemExit):
        return None
    return cause if isinstance(cause, BaseException) else None
