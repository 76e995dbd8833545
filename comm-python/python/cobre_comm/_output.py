"""Shows what the ranks print, with their numbers in front."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable

Piece = tuple[int, bool, bytes, bool]
"""What a rank wrote: its number, whether to standard error, the bytes, and whether the line has ended."""


class Output:
    """Writes to whatever ``sys.stdout`` and ``sys.stderr`` are now: a notebook and a test runner replace them."""

    def __init__(self) -> None:
        self._open: tuple[int, bool] | None = None
        self._torn: set[tuple[int, bool]] = set()
        self._decoders: dict[tuple[int, bool], codecs.IncrementalDecoder] = {}
        self._closed = False

    def close(self) -> None:
        """Drops whatever comes from now on."""
        self._closed = True

    def write(self, pieces: Iterable[Piece]) -> None:
        """Writes lines, and of rank 0 pieces of lines, as they came."""
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
                # Somebody else's line is not finished: it goes on in a new one.
                if self._open[1] == error:
                    gathered.append("\n")
                else:
                    _write(self._open[1], ["\n"])
                self._torn.add(self._open)
                self._open = None
            if self._open is None and (rank, error) in self._torn:
                self._torn.discard((rank, error))
                if ended and not data:
                    # All of the line was shown, and its end by what came in between.
                    continue
            gathered.append(self._text(rank, error, data, ended))
            self._open = None if ended else (rank, error)
        if gathered:
            _write(to_error, gathered)

    def _text(self, rank: int, error: bool, data: bytes, ended: bool) -> str:
        """Returns the piece with the rank in front of it, and again behind each return of the carriage."""
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
        # All that `print` needs is `write`.
        if hasattr(stream, "flush"):
            stream.flush()
