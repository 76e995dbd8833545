"""Which rank an exception blames."""

from __future__ import annotations

import cobre_comm as cc
import pytest
from cobre_comm import _blame

LOST = cc.PeerLost("barrier: peer lost, rank 2: its process ended", "barrier", "PeerLost", 2)


def raises(how: str) -> None:
    if how == "itself":
        raise LOST
    if how == "alone":
        raise ValueError("of its own")
    try:
        raise LOST
    except cc.CommError as error:
        if how == "cause":
            raise RuntimeError("the job is over") from error
        if how == "hidden":
            raise RuntimeError("the job is over") from None
        raise RuntimeError("the job is over")  # noqa: B904


@pytest.mark.parametrize(("how", "named"), [("itself", 2), ("cause", 2), ("context", 2), ("hidden", 2), ("alone", None)])
def test_an_exception_names_the_rank_that_led_to_it(how: str, named: int | None) -> None:
    with pytest.raises(Exception, match=r"ended|own|over") as caught:
        raises(how)
    assert _blame.Record.of(caught.value, 0.0).named == named


def test_a_rank_does_not_blame_itself_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blame, "OWN", "2")
    assert _blame.Record.of(LOST, 0.0).named is None
