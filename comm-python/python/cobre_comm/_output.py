"""Shows the output of the ranks, with their numbers in front."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable

Piece = tuple[int, bool, bytes, bool]
"""A piece of output: the rank, whether it wrote to standard error, the bytes, and whether the line has ended."""


class Output:
    """Writes to the current ``sys.stdout`` and ``sys.stderr``, which a notebook or a test runner may replace."""

    def __init__(self) -> None:
        self._open: tuple[int, bool] | None = None
        self._torn: set[tuple[int, bool]] = set()
        self._decoders: dict[tuple[int, bool], codecs.IncrementalDecoder] = {}
        self._closed = False

    def close(self) -> None:
        """Drops all further output."""
        self._closed = True

    def write(self, pieces: Iterable[Piece]) -> None:
        """Writes lines in the order in which they arrived, and pieces of lines of rank 0."""
        if self._closed:
            return
        gathered: list[str] = []
        to_error = False
        for rank, error, data, ended in pieces:
            if error != to_error and gathered:
                _write(to_error, gathered)
                gathered = []
            to_error = error
            if self._open is not None and self._open != (rank, error):
                # The line of another stream is unfinished: it will continue on a new line.
                if self._open[1] == error:
                    gathered.append("\n")
                else:
                    _write(self._open[1], ["\n"])
                self._torn.add(self._open)
                self._open = None
            if self._open is None and (rank, error) in self._torn:
                self._torn.discard((rank, error))
                if ended and not data:
                    # The whole line was already shown, and the interrupting line has ended it.
                    continue
            gathered.append(self._text(rank, error, data, ended))
            self._open = None if ended else (rank, error)
        if gathered:
            _write(to_error, gathered)

    def _text(self, rank: int, error: bool, data: bytes, ended: bool) -> str:
        """Returns the piece with the rank in front of it and after each carriage return."""
        decoder = self._decoders.get((rank, error))
        if decoder is None:
            decoder = self._decoders[rank, error] = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=ended)
        last = ""
        if ended:
            text, last = (text[:-1], "\r\n") if text.endswith("\r") else (text, "\n")
        begins = self._open is None and not text.startswith("\r")
        text = text.replace("\r", f"\r[{rank}] ")
        return f"[{rank}] {text}{last}" if begins else text + last


def _write(to_error: bool, texts: list[str]) -> None:
    stream = sys.stderr if to_error else sys.stdout
    if stream is not None:
        stream.write("".join(texts))
        # `print` only requires `write`, so the stream may have no `flush`.
        if hasattr(stream, "flush"):
            stream.flush()
