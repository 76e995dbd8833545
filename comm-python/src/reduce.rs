//! `allreduce`, of numbers and of arrays.

use comm_factory::api::{Communicator, ReduceOp, ScalarKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

use crate::argument::{array, described, fill, integer, reducible};
use crate::call::{checked, run};
use crate::memory::{Access, View};
use crate::numpy::{Numpy, dtype_of, numpy};

const OPERATION: &str = "allreduce";

/// Combines `x` of all ranks.
#[inline]
pub(crate) fn allreduce<'py>(
    comm: &dyn Communicator,
    x: &Bound<'py, PyAny>,
    op: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let numpy = numpy(py)?;
    let op = checked(py, comm, OPERATION, operation(op))?;
    if !numpy.is_array(x) {
        let number = checked(py, comm, OPERATION, number(numpy, x, op, out))?;
        if let Some(number) = number {
            return number.allreduce(comm, numpy, x, op);
        }
    }
    let (mut send, mut recv) = (View::new(), View::new());
    let prepared = prepare(numpy, x, op, out, &mut send, &mut recv);
    let (scalar, out) = checked(py, comm, OPERATION, prepared)?;
    if send.is_same(&recv) {
        let buf = recv.bytes_mut();
        run(py, OPERATION, || {
            comm.allreduce_in_place_bytes(buf, scalar, op)
        })?;
    } else if send.overlaps(&recv) {
        let copy = send.bytes().to_vec();
        let recv = recv.bytes_mut();
        run(py, OPERATION, || {
            comm.allreduce_bytes(&copy, recv, scalar, op)
        })?;
    } else {
        let (send, recv) = (send.bytes(), recv.bytes_mut());
        run(py, OPERATION, || {
            comm.allreduce_bytes(send, recv, scalar, op)
        })?;
    }
    Ok(out)
}

/// Checks the arrays, and creates one for the result if `out` is not given.
#[inline]
fn prepare<'py>(
    numpy: &Numpy,
    x: &Bound<'py, PyAny>,
    op: ReduceOp,
    out: Option<&Bound<'py, PyAny>>,
    send: &mut View<'py>,
    recv: &mut View<'py>,
) -> PyResult<(ScalarKind, Bound<'py, PyAny>)> {
    let py = x.py();
    let x = array(numpy, "x", x, Access::Read)?;
    let dtype = dtype_of(&x)?;
    let scalar = reducible(numpy, "x", &dtype)?;
    supported(op, scalar)?;
    fill(send, "x", &x, Access::Read)?;
    let Some(out) = out else {
        let result = numpy.empty(py, PyTuple::new(py, send.shape())?, &dtype)?;
        fill(recv, "out", &result, Access::Write)?;
        return Ok((scalar, result));
    };
    let target = array(numpy, "out", out, Access::Write)?;
    let target_dtype = dtype_of(&target)?;
    if !target_dtype.is(&dtype) && numpy.scalar(&target_dtype)? != Some(scalar) {
        return Err(PyTypeError::new_err(format!(
            "out: its dtype is {target_dtype}, but that of x is {dtype}; pass np.empty_like(x)"
        )));
    }
    fill(recv, "out", &target, Access::Write)?;
    if send.shape() != recv.shape() {
        return Err(PyValueError::new_err(format!(
            "out: its shape is {:?}, but that of x is {:?}; pass np.empty_like(x)",
            recv.shape(),
            send.shape()
        )));
    }
    Ok((scalar, out.clone()))
}

#[inline]
fn supported(op: ReduceOp, scalar: ScalarKind) -> PyResult<()> {
    if op.supports(scalar) {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "op: bitwise operations take integers only, but x is {scalar}; use \"sum\", \"prod\", \"min\" or \"max\""
    )))
}

/// A number as the bytes that are sent.
struct Number {
    scalar: ScalarKind,
    bytes: [u8; 8],
    /// Whether it is a numpy number, so that the result is one, too.
    is_numpy: bool,
}

/// Reads `x` if it is a number.
fn number(
    numpy: &Numpy,
    x: &Bound<'_, PyAny>,
    op: ReduceOp,
    out: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Number>> {
    let (scalar, bytes, is_numpy) = if let Ok(x) = x.cast_exact::<PyFloat>() {
        (ScalarKind::F64, x.value().to_ne_bytes(), false)
    } else if x.is_instance(numpy.generic.bind(x.py()))? {
        let dtype = dtype_of(x)?;
        let scalar = reducible(numpy, "x", &dtype)?;
        let mut view = View::new();
        fill(&mut view, "x", x, Access::Read)?;
        let mut bytes = [0; 8];
        bytes[..scalar.size()].copy_from_slice(view.bytes());
        (scalar, bytes, true)
    } else if x.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(
            "x: a bool cannot be reduced; pass int(x), with op=\"max\" for any and op=\"min\" for all",
        ));
    } else if x.is_instance_of::<PyInt>() {
        (ScalarKind::I64, integer("x", x)?.to_ne_bytes(), false)
    } else if let Ok(x) = x.cast::<PyFloat>() {
        (ScalarKind::F64, x.value().to_ne_bytes(), false)
    } else {
        return Ok(None);
    };
    supported(op, scalar)?;
    if out.is_some() {
        return Err(PyTypeError::new_err(
            "out: x is a number, so the result is a number, too; pass out only with an array",
        ));
    }
    Ok(Some(Number {
        scalar,
        bytes,
        is_numpy,
    }))
}

impl Number {
    fn allreduce<'py>(
        &self,
        comm: &dyn Communicator,
        numpy: &Numpy,
        x: &Bound<'py, PyAny>,
        op: ReduceOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let &Self { scalar, bytes, .. } = self;
        let mut recv = [0; 8];
        run(py, OPERATION, || {
            let width = ..scalar.size();
            comm.allreduce_bytes(&bytes[width], &mut recv[width], scalar, op)
        })?;
        let result = python(py, scalar, recv)?;
        if self.is_numpy {
            numpy.number(scalar).bind(py).call1((result,))
        } else {
            Ok(result)
        }
    }
}

/// Turns bytes into a Python number.
fn python(py: Python<'_>, scalar: ScalarKind, bytes: [u8; 8]) -> PyResult<Bound<'_, PyAny>> {
    let [a, b, c, d, ..] = bytes;
    Ok(match scalar {
        ScalarKind::I8 => i8::from_ne_bytes([a]).into_pyobject(py)?.into_any(),
        ScalarKind::I16 => i16::from_ne_bytes([a, b]).into_pyobject(py)?.into_any(),
        ScalarKind::I32 => i32::from_ne_bytes([a, b, c, d])
            .into_pyobject(py)?
            .into_any(),
        ScalarKind::I64 => i64::from_ne_bytes(bytes).into_pyobject(py)?.into_any(),
        ScalarKind::U8 => a.into_pyobject(py)?.into_any(),
        ScalarKind::U16 => u16::from_ne_bytes([a, b]).into_pyobject(py)?.into_any(),
        ScalarKind::U32 => u32::from_ne_bytes([a, b, c, d])
            .into_pyobject(py)?
            .into_any(),
        ScalarKind::U64 => u64::from_ne_bytes(bytes).into_pyobject(py)?.into_any(),
        ScalarKind::F32 => f32::from_ne_bytes([a, b, c, d])
            .into_pyobject(py)?
            .into_any(),
        ScalarKind::F64 => f64::from_ne_bytes(bytes).into_pyobject(py)?.into_any(),
    })
}

/// Reads the argument `op`.
#[inline]
fn operation(op: Option<&Bound<'_, PyAny>>) -> PyResult<ReduceOp> {
    let Some(op) = op else {
        return Ok(ReduceOp::Sum);
    };
    let known = match op.cast::<PyString>() {
        Ok(name) => match name.to_str()? {
            "sum" => Some(ReduceOp::Sum),
            "min" => Some(ReduceOp::Min),
            "max" => Some(ReduceOp::Max),
            "bitwise_or" => Some(ReduceOp::BitwiseOr),
            "bitwise_and" => Some(ReduceOp::BitwiseAnd),
            "prod" => Some(ReduceOp::Prod),
            "bitwise_xor" => Some(ReduceOp::BitwiseXor),
            _ => None,
        },
        Err(_) => None,
    };
    known.ok_or_else(|| unknown(op))
}

#[cold]
fn unknown(op: &Bound<'_, PyAny>) -> PyErr {
    let is_text = op.is_instance_of::<PyString>();
    let shown = op.repr().ok().filter(|_| is_text);
    let shown = shown.map_or_else(|| described(op), |text| text.to_string());
    let message = format!(
        "op: {shown} is no operation; pass \"sum\", \"prod\", \"min\", \"max\", \"bitwise_or\", \"bitwise_and\" or \"bitwise_xor\""
    );
    if is_text {
        PyValueError::new_err(message)
    } else {
        PyTypeError::new_err(message)
    }
}
