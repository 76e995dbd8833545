"""Invalid arguments: an exception that names the argument on the rank that passed it, `Refused` on the others; both can go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cobre_comm as cc
import numpy as np
import pytest
import worlds

Call = Callable[[cc.Communicator], Any]

GOOD = np.ones(3)
READ_ONLY = np.ones(3)
READ_ONLY.flags.writeable = False
OBJECTS = np.array([1, "a", None], dtype=object)
UNKNOWN: Any = 1
TEXT: Any = "0"
FRACTION: Any = 2.5
AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""The most axes of an array."""
FRACTIONS: Any = [3.0]
MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])


BYTES: Any = b"\3"


class Lambda:
    """An object that cannot be pickled."""

    def __reduce__(self) -> str:
        raise TypeError("object: it stays here")


class Series:
    """An array of another library; the dtype of its elements may be one of numpy or of that library."""

    def __init__(self, dtype: Any, values: Any) -> None:
        self.dtype, self.values = dtype, values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.values, dtype)


class Frame:
    """Columns with different dtypes, which become one array only by conversion."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.array([[2**53 + 1, 0.5]])


class Tensor:
    """A tensor with other values than those in its memory."""

    def __init__(self, negative: bool, conjugate: bool) -> None:
        self.memory = np.ones(3)
        self.negative, self.conjugate = negative, conjugate

    def is_neg(self) -> bool:
        return self.negative

    def is_conj(self) -> bool:
        return self.conjugate

    def __dlpack__(self, **more: Any) -> Any:
        return self.memory.__dlpack__(**more)

    def __dlpack_device__(self) -> Any:
        return self.memory.__dlpack_device__()


NULLABLE: Any = Series("Int64", [2.0**53, float("nan")])
CHANGED: Any = Series(np.dtype(np.int64), [1.0, 2.0, 3.0])
NEGATIVE, CONJUGATE = Tensor(True, False), Tensor(False, True)


def reduces(x: Any, **more: Any) -> Call:
    return lambda comm: comm.allreduce(x, **more)


def gathers(x: Any, **more: Any) -> Call:
    return lambda comm: comm.allgather(x, **more)


def joins(x: Any, **more: Any) -> Call:
    return lambda comm: comm.allgatherv(x, **more)


def sends(x: Any, **more: Any) -> Call:
    return lambda comm: comm.broadcast(x, **more)


REFUSED: dict[str, tuple[Call, type[Exception], str]] = {
    "reduce a list": (reduces([1.0, 2.0, 3.0]), TypeError, r"^x: a list has no dtype .*pass np.array\(x, dtype=np.float64\)"),
    "reduce a tuple": (reduces((1.0, 2.0)), TypeError, "^x: a tuple has no dtype"),
    "reduce a str": (reduces("abc"), TypeError, "^x: a str is no array"),
    "reduce None": (reduces(None), TypeError, "^x: None is no array"),
    "reduce a bool": (reduces(True), TypeError, r"^x: a bool cannot be reduced; pass int\(x\)"),
    "reduce a complex": (reduces(1j), TypeError, "^x: the dtype complex128 cannot be reduced; pass x.view"),
    "reduce a large int": (reduces(2**63), ValueError, r"^x: .*64-bit.*np.uint64\(x\)"),
    "reduce a small int": (reduces(-(2**63) - 1), ValueError, "^x: .*64-bit"),
    "reduce bools": (reduces(np.array([True, False, True])), TypeError, r"^x: the dtype bool .*pass x.astype\(np.uint8\)"),
    "reduce float16": (reduces(np.ones(3, dtype=np.float16)), TypeError, "^x: the dtype float16 .*np.float32"),
    "reduce a float16": (reduces(np.float16(1)), TypeError, "^x: the dtype float16"),
    "reduce longdouble": (reduces(np.ones(3, dtype=np.longdouble)), TypeError, "^x: the dtype .*np.float64"),
    "reduce complex": (reduces(np.ones(3, dtype=complex)), TypeError, "^x: the dtype complex128 .*view"),
    "reduce big-endian": (reduces(np.ones(3, dtype=">f8")), TypeError, "^x: the dtype >f8 .*newbyteorder"),
    "reduce objects": (reduces(OBJECTS), TypeError, "^x: the dtype object .*allgather_object"),
    "reduce dates": (reduces(np.array(["2020-01-01"], dtype="M8[D]")), TypeError, r"^x: .*view\(np.int64\)"),
    "reduce texts": (reduces(np.array(["a", "b"])), TypeError, "^x: the dtype <U1 cannot be reduced"),
    "reduce structures": (reduces(np.zeros(3, dtype=[("a", "f8")])), TypeError, "^x: the dtype .* cannot be reduced"),
    "reduce every second": (reduces(np.ones(6)[::2]), ValueError, r"^x: .*not contiguous.*np.ascontiguousarray\(x\)"),
    "reduce the order of Fortran": (reduces(np.ones((2, 3), order="F")), ValueError, "^x: .*not contiguous"),
    "reduce a masked array": (reduces(MASKED), TypeError, r"^x: the mask .*x.filled\(value\)"),
    "reduce a frame": (
        reduces(Frame()),
        TypeError,
        r"^x: a test_inputs.Frame is no numpy array, and its values could change .*; pass np.asarray\(x, dtype=..\) with",
    ),
    "reduce what can lack numbers": (reduces(NULLABLE), TypeError, "^x: a test_inputs.Series of dtype Int64 is no numpy array"),
    "reduce what lies about its dtype": (reduces(CHANGED), TypeError, "^x: a test_inputs.Series of dtype int64 is no numpy array"),
    "reduce a negative": (reduces(NEGATIVE), TypeError, r"^x: a test_inputs.Tensor has its negative bit set.*x.resolve_neg\(\)"),
    "reduce a conjugate": (reduces(CONJUGATE), TypeError, r"^x: a test_inputs.Tensor has its conjugate bit.*x.resolve_conj\(\)"),
    "reduce into a negative": (reduces(GOOD, out=NEGATIVE), TypeError, r"^out: .*negative bit.*out.resolve_neg\(\)"),
    "gather a frame": (gathers(Frame()), TypeError, "^x: a test_inputs.Frame is no numpy array"),
    "send a negative": (sends(NEGATIVE), TypeError, r"^array: .*negative bit.*array.resolve_neg\(\)"),
    "reduce by an unknown op": (reduces(GOOD, op="mean"), ValueError, "^op: 'mean' is no operation; pass \"sum\""),
    "reduce by a function": (reduces(GOOD, op=max), TypeError, "^op: a builtin"),
    "reduce bits of floats": (reduces(GOOD, op="bitwise_or"), TypeError, "^op: bitwise operations take integers only"),
    "reduce bits of a float": (reduces(1.5, op="bitwise_and"), TypeError, "^op: bitwise"),
    "reduce into another shape": (reduces(GOOD, out=np.empty(4)), ValueError, r"^out: its shape is \[4\]"),
    "reduce into two axes": (reduces(GOOD, out=np.empty((3, 1))), ValueError, "^out: its shape is"),
    "reduce into another dtype": (
        reduces(GOOD, out=np.empty(3, "f4")),
        TypeError,
        "^out: its dtype is float32, but that of x is float64",
    ),
    "reduce into read-only": (reduces(GOOD, out=READ_ONLY), ValueError, "^out: the array is read-only"),
    "reduce into every second": (reduces(GOOD, out=np.empty(6)[::2]), ValueError, "^out: .*not contiguous"),
    "reduce into a list": (reduces(GOOD, out=[0.0] * 3), TypeError, "^out: a list has no dtype"),
    "reduce a number into an array": (reduces(1.5, out=np.empty(1)), TypeError, "^out: x is a number"),
    "add up wide integers": (lambda c: c.exact_sum(np.ones(3, dtype=np.int64)), TypeError, r"^x: .*x.astype\(np.float64\)"),
    "add up an int": (lambda c: c.exact_sum(3), TypeError, r"^x: a float64 cannot represent every int.*; pass float\(x\)"),
    "add up a bool": (lambda c: c.exact_sum(True), TypeError, r"^x: .*; pass float\(x\)"),
    "add up along another axis": (
        lambda c: c.exact_sum(np.ones((2, 2)), axis=UNKNOWN),
        ValueError,
        "^axis: 1 is not supported; pass 0",
    ),
    "add up along a text": (lambda c: c.exact_sum(np.ones((2, 2)), axis=TEXT), TypeError, "^axis: a str is no axis; pass 0"),
    "add up columns of a number": (lambda c: c.exact_sum(1.5, axis=0), ValueError, r"^x: it has no axis .*np.atleast_1d\(x\)"),
    "add up columns of wide integers": (
        lambda c: c.exact_sum(np.ones((2, 2), np.uint64), axis=0),
        TypeError,
        "^x: a float64 cannot represent every u64",
    ),
    "add up every second": (lambda c: c.exact_sum(np.ones(6)[::2]), ValueError, "^x: .*not contiguous"),
    "add up a list": (lambda c: c.exact_sum([1.0]), TypeError, "^x: a list has no dtype"),
    "gather a list": (gathers([1.0, 2.0]), TypeError, "^x: a list has no dtype"),
    "gather objects": (gathers(OBJECTS), TypeError, "^x: the dtype object holds references"),
    "gather a structure with objects": (gathers(np.zeros(2, dtype=[("a", "O")])), TypeError, "^x: the dtype .* holds references"),
    "gather a large int": (gathers(2**64), ValueError, "^x: .*64-bit"),
    "gather nothing wide": (gathers(np.zeros(2, dtype="V0")), TypeError, "^x: elements of the dtype .* have no bytes"),
    "gather too many axes": (gathers(np.ones((1,) * AXES)), ValueError, rf"^x: it has {AXES} axes, .*x.reshape\(-1\)"),
    "gather into another shape": (gathers(GOOD, out=np.empty(4)), ValueError, "^out: its shape is"),
    "gather every second": (gathers(np.ones(6)[::2]), ValueError, "^x: .*not contiguous"),
    "join a number": (joins(1.5), ValueError, "^send: it has no axis"),
    "join without an axis": (joins(np.array(1.5)), ValueError, "^send: it has no axis .*allgather"),
    "join objects": (joins(OBJECTS), TypeError, "^send: the dtype object holds references"),
    "join with too many counts": (joins(GOOD, counts=[3] * 99), ValueError, "^counts: it has 99 numbers"),
    "join with wrong counts": (
        lambda c: c.allgatherv(GOOD, counts=[4] * c.size),
        ValueError,
        r"^counts: counts\[\d\] is 4, but send has 3 rows",
    ),
    "join with negative counts": (
        lambda c: c.allgatherv(GOOD, counts=[-3] * c.size),
        TypeError,
        "^counts: a list is not a list of",
    ),
    "join with a count": (joins(GOOD, counts=3), TypeError, "^counts: an int is not a list of numbers of rows"),
    "join with bytes as counts": (lambda c: c.allgatherv(np.ones(3), counts=BYTES * c.size), TypeError, "^counts: a bytes is not"),
    "join with fractions": (lambda c: c.allgatherv(GOOD, counts=FRACTIONS * c.size), TypeError, "^counts: "),
    "join into another dtype": (
        lambda c: c.allgatherv(GOOD, [3] * c.size, np.empty(3 * c.size, "i8")),
        TypeError,
        "^out: its dtype",
    ),
    "send a list": (sends([1.0]), TypeError, "^array: a list has no dtype"),
    "send a number": (sends(1.5), TypeError, "^array: a number cannot be written in place"),
    "send bytes": (sends(b"abc"), ValueError, "^array: the array is read-only"),
    "send read-only": (sends(READ_ONLY), ValueError, r"^array: the array is read-only; .*array.copy\(\)"),
    "send every second": (sends(np.ones(6)[::2]), ValueError, r"^array: .*not contiguous.*array\[...\] = contiguous"),
    "send objects": (sends(OBJECTS), TypeError, "^array: the dtype object holds references"),
    "send from nobody": (sends(GOOD, root=99), ValueError, "^root: 99 is not a rank of a communicator of size"),
    "send from below": (sends(GOOD, root=-1), ValueError, "^root: -1 is not a rank"),
    "send from a name": (sends(GOOD, root="0"), TypeError, "^root: '0' is not a rank"),
    "gather what stays": (lambda comm: comm.allgather_object(Lambda()), TypeError, "^object: it stays here"),
    "broadcast from nobody": (lambda comm: comm.broadcast_object(1, root=99), ValueError, "^root: 99"),
    "share a negative shape": (lambda comm: comm.shared_array((2, -1)), TypeError, r"^shape: \(2, -1\) is no shape"),
    "share a fraction": (lambda comm: comm.shared_array(FRACTION), TypeError, "^shape: 2.5 is no shape"),
    "share the shape of bytes": (lambda comm: comm.shared_array(BYTES), TypeError, r"^shape: b'\\x03' is no shape"),
    "share too much": (lambda comm: comm.shared_array((2**40, 2**40)), ValueError, "^shape: .*larger than the address space"),
    "share too many axes": (
        lambda comm: comm.shared_array((1,) * (AXES + 1)),
        ValueError,
        rf"^shape: it has {AXES + 1} axes, more than",
    ),
    "share objects": (lambda comm: comm.shared_array(3, object), TypeError, "^dtype: the dtype object holds references"),
    "share what is no dtype": (lambda comm: comm.shared_array(3, "nonsense"), ValueError, "^dtype: .*nonsense"),
    "share a dtype with a shape": (lambda comm: comm.shared_array(3, ("f8", (2,))), ValueError, "^dtype: .*its base"),
    "share parts without an axis": (
        lambda comm: comm.partitioned_array(()),
        ValueError,
        "^shape: a partitioned array has at least one axis",
    ),
}


def refused(comm: cc.Communicator, name: str) -> None:
    """The last rank passes a wrong argument, the others a right one."""
    call, expected, words = REFUSED[name]
    culprit = comm.size - 1
    before = comm.allreduce(1)
    operation = name.split()[0]
    if comm.rank == culprit:
        with pytest.raises(expected, match=words):
            call(comm)
    elif operation == "share" and comm.backend == "tcp":
        # Ranks do not share memory and create their arrays alone, so the other ranks have no part in the refused call.
        comm.shared_array(3)
    else:
        rights: dict[str, Call] = {
            "reduce": lambda comm: comm.allreduce(GOOD),
            "add": lambda comm: comm.exact_sum(GOOD),
            "gather": lambda comm: comm.allgather_object(1) if "stays" in name else comm.allgather(GOOD),
            "join": lambda comm: (
                comm.allgatherv(GOOD, [3] * comm.size) if "count" in name or "into" in name else comm.allgatherv(GOOD)
            ),
            "send": lambda comm: comm.broadcast(np.ones(3)),
            "broadcast": lambda comm: comm.broadcast_object(1),
            "share": lambda comm: comm.shared_array(3),
        }
        with pytest.raises(cc.Refused, match=words.removeprefix("^").split(" ")[0]) as told:
            rights[operation](comm)
        assert told.value.rank == culprit
        assert told.value.kind == "Refused"
    assert comm.allreduce(1) == before == comm.size


def check_arrays_of_other_libraries_keep_their_dtype(comm: cc.Communicator) -> None:
    for dtype in (np.int64, np.float32):
        series: Any = Series(np.dtype(dtype), np.array([1, 2, 3], dtype))
        total = comm.allreduce(series)
        assert (total.dtype, total.tolist()) == (dtype, [comm.size, 2 * comm.size, 3 * comm.size])
    plain: Any = Tensor(False, False)
    assert comm.allreduce(plain).tolist() == [comm.size] * 3


def _checks() -> None:
    for name in REFUSED:
        globals()[f"check_{name.replace(' ', '_')}"] = lambda comm, name=name: refused(comm, name)


_checks()


@worlds.every(__name__)
def test_inputs(backend: str, ranks: int, name: str) -> None:
    worlds.judge(__name__, backend, ranks, name)
