//! Turns the arguments of a program into arrays, or into exceptions that tell what to pass instead.

use comm_factory::api::ScalarKind;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList,
    PyMemoryView, PySet, PyTuple,
};

use crate::memory::{Access, View};
use crate::numpy::{Numpy, dtype_of};

/// Returns `object` as an array, without a copy.
///
/// An argument that is only read may also be a number. An argument that is written must own memory that the array can view.
#[inline]
pub(crate) fn array<'py>(
    numpy: &Numpy,
    name: &'static str,
    object: &Bound<'py, PyAny>,
    access: Access,
) -> PyResult<Bound<'py, PyAny>> {
    if numpy.is_array(object) {
        return Ok(object.clone());
    }
    other_array(numpy, name, object, access)
}

#[cold]
fn other_array<'py>(
    numpy: &Numpy,
    name: &'static str,
    object: &Bound<'py, PyAny>,
    access: Access,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let asarray = numpy.asarray.bind(py);
    if object.is_instance(numpy.ndarray.bind(py))? {
        if Numpy::is_masked(object)? {
            return Err(PyTypeError::new_err(format!(
                "{name}: the mask of a masked array would get lost; pass {name}.filled(value), or {name}.data and {name}.mask"
            )));
        }
        return Ok(object.clone());
    }
    if is_number(numpy, object)? {
        if access == Access::Write {
            return Err(PyTypeError::new_err(format!(
                "{name}: a number cannot be written in place; pass a numpy array, such as np.array([{name}])"
            )));
        }
        return asarray.call1((object, number_dtype(numpy, name, object)?));
    }
    if is_container(object) {
        return Err(PyTypeError::new_err(format!(
            "{name}: {} has no dtype that is sure to be the same on all ranks; pass np.array({name}, dtype=np.float64), or another dtype",
            described(object)
        )));
    }
    let converted = if let Ok(memory) = PyMemoryView::from(object) {
        asarray.call1((memory,))
    } else if object.hasattr(intern!(py, "__array_interface__"))? {
        asarray.call1((object,))
    } else if object.hasattr(intern!(py, "__dlpack__"))? {
        has_its_values(name, object)?;
        from_dlpack(numpy, name, object, access)
    } else if access == Access::Read && object.hasattr(intern!(py, "__array__"))? {
        return of_own_dtype(numpy, name, object);
    } else {
        return Err(no_array(name, object));
    };
    converted.map_err(|error| {
        let told = PyTypeError::new_err(format!(
            "{name}: {} cannot be read as a numpy array: {}; pass plain memory of this process (for a tensor: .detach(), .cpu(), and, for a dtype \
            that numpy lacks, such as bfloat16, .float(), which is float32)",
            described(object),
            error.value(py)
        ));
        told.set_cause(py, Some(error));
        told
    })
}

/// Takes the memory of a tensor. If `DLPack` does not support its dtype, but numpy does with the help of another library (bfloat16 of jax), a
/// copy is enough for an argument that is only read.
fn from_dlpack<'py>(
    numpy: &Numpy,
    name: &'static str,
    object: &Bound<'py, PyAny>,
    access: Access,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let taken = numpy.from_dlpack.bind(py).call1((object,));
    if taken.is_ok() || access == Access::Write || !object.hasattr(intern!(py, "__array__"))? {
        return taken;
    }
    of_own_dtype(numpy, name, object).or(taken)
}

/// Checks that the values of a tensor are those of its memory. torch negates and conjugates lazily with a bit, which `DLPack` does not report.
fn has_its_values(name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    for (asks, bit, remedy) in [
        ("is_neg", "negative", "resolve_neg"),
        ("is_conj", "conjugate", "resolve_conj"),
    ] {
        let is_set = object.call_method0(asks).and_then(|set| set.is_truthy());
        if matches!(is_set, Ok(true)) {
            return Err(PyTypeError::new_err(format!(
                "{name}: {} has its {bit} bit set, so that its memory does not hold its values; pass {name}.{remedy}(), a copy",
                described(object)
            )));
        }
    }
    Ok(())
}

/// Converts an object without accessible memory to an array, if that keeps its dtype: a table with several dtypes, or a dtype that numpy does
/// not have, would be changed.
fn of_own_dtype<'py>(
    numpy: &Numpy,
    name: &'static str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let dtype = object.getattr(intern!(py, "dtype")).ok();
    if let Some(dtype) = &dtype
        && dtype.is_instance(numpy.dtype.bind(py))?
    {
        let array = numpy.asarray.bind(py).call1((object,))?;
        if dtype_of(&array)?.eq(dtype)? {
            return Ok(array);
        }
    }
    let of = dtype.map_or_else(String::new, |dtype| format!(" of dtype {dtype}"));
    Err(PyTypeError::new_err(format!(
        "{name}: {}{of} is no numpy array, and its values could change in a conversion; pass np.asarray({name}, dtype=..) with a dtype that \
        holds all of them",
        described(object)
    )))
}

fn no_array(name: &'static str, object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{name}: {} is no array; pass a numpy array, or an object with the buffer protocol, __array_interface__ or __dlpack__",
        described(object)
    ))
}

/// Returns whether `object` is a Python or numpy number.
fn is_number(numpy: &Numpy, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyComplex>()
        || object.is_instance(numpy.generic.bind(object.py()))?)
}

/// Returns the dtype with which a number is sent: the dtype of a numpy number, 64 bits for an `int` or a `float`.
fn number_dtype<'py>(
    numpy: &Numpy,
    name: &'static str,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if object.is_instance(numpy.generic.bind(py))? {
        return dtype_of(object);
    }
    let code = if object.is_instance_of::<PyBool>() {
        "bool"
    } else if object.is_instance_of::<PyInt>() {
        integer(name, object)?;
        "int64"
    } else if object.is_instance_of::<PyFloat>() {
        "float64"
    } else {
        "complex128"
    };
    numpy.dtype.bind(py).call1((code,))
}

/// Returns an `int` as a number of 64 bits.
pub(crate) fn integer(name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<i64> {
    object.extract().map_err(|_| {
        PyValueError::new_err(format!(
            "{name}: the number does not fit into a signed 64-bit integer; pass np.uint64({name}) up to 2**64 - 1, or float({name}), which rounds"
        ))
    })
}

fn is_container(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyList>()
        || object.is_instance_of::<PyTuple>()
        || object.is_instance_of::<PySet>()
        || object.is_instance_of::<PyFrozenSet>()
        || object.is_instance_of::<PyDict>()
}

/// Describes an object in an error: `a list`.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> String {
    if object.is_none() {
        return String::from("None");
    }
    let class = object.get_type();
    let class = class
        .fully_qualified_name()
        .map_or_else(|_| String::from("object"), |name| name.to_string());
    let article = if class.starts_with(['a', 'e', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {class}")
}

/// Fills a view with the memory of an array.
#[inline]
pub(crate) fn fill<'py>(
    view: &mut View<'py>,
    name: &'static str,
    array: &Bound<'py, PyAny>,
    access: Access,
) -> PyResult<()> {
    match view.fill(array, access) {
        Ok(()) => Ok(()),
        Err(error) => Err(not_filled(name, array, access, error)),
    }
}

/// Returns the exception that tells why the memory of an array cannot be used.
#[cold]
fn not_filled(name: &'static str, array: &Bound<'_, PyAny>, access: Access, error: PyErr) -> PyErr {
    let py = array.py();
    let flag = |flag: &str| -> bool {
        let flags = array.getattr(intern!(py, "flags"));
        let flag = flags.and_then(|flags| flags.get_item(flag));
        flag.and_then(|flag| flag.is_truthy()).unwrap_or(true)
    };
    let told = if !flag("C_CONTIGUOUS") {
        let remedy = match access {
            Access::Read => format!("pass np.ascontiguousarray({name})"),
            Access::Write => {
                format!("pass a contiguous array and copy the result: {name}[...] = contiguous")
            }
        };
        PyValueError::new_err(format!(
            "{name}: the array is not contiguous in C order; {remedy}"
        ))
    } else if access == Access::Write && !flag("WRITEABLE") {
        PyValueError::new_err(format!(
            "{name}: the array is read-only; pass a writable one, such as {name}.copy()"
        ))
    } else {
        PyTypeError::new_err(format!(
            "{name}: the memory of the array cannot be used: {}; pass a copy with a plain dtype",
            error.value(py)
        ))
    };
    told.set_cause(py, Some(error));
    told
}

/// Returns the scalar of a dtype that can be reduced.
#[inline]
pub(crate) fn reducible(
    numpy: &Numpy,
    name: &'static str,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<ScalarKind> {
    match numpy.scalar(dtype)? {
        Some(kind) => Ok(kind),
        None => Err(not_reducible(name, dtype)),
    }
}

#[cold]
fn not_reducible(name: &'static str, dtype: &Bound<'_, PyAny>) -> PyErr {
    let kind = dtype.getattr("kind").and_then(|kind| kind.extract());
    let kind: String = kind.unwrap_or_default();
    let native = dtype.getattr("isnative").and_then(|is| is.is_truthy());
    let remedy = match kind.as_str() {
        "i" | "u" | "f" if matches!(native, Ok(false)) => {
            format!("pass {name}.astype({name}.dtype.newbyteorder(\"=\"))")
        }
        "b" => {
            format!("pass {name}.astype(np.uint8), with op=\"max\" for any and op=\"min\" for all")
        }
        "c" => format!(
            "pass {name}.view(np.float64) (np.float32 for complex64), which adds the parts and is right only for op=\"sum\""
        ),
        "f" => format!("pass {name}.astype(np.float32) or {name}.astype(np.float64)"),
        "M" | "m" => format!("pass {name}.view(np.int64)"),
        "O" => format!("pass {name}.astype(np.float64), or use allgather_object"),
        _ => String::from("pass an array of numbers"),
    };
    PyTypeError::new_err(format!(
        "{name}: the dtype {dtype} cannot be reduced; {remedy}. Reductions work on int8 to int64, uint8 to uint64, float32 and float64, \
        in the byte order of this machine"
    ))
}

/// Reads an argument that is a rank.
#[inline]
pub(crate) fn rank(
    name: &'static str,
    object: Option<&Bound<'_, PyAny>>,
    size: usize,
) -> PyResult<usize> {
    let Some(object) = object else {
        return Ok(0);
    };
    let rank = object.extract::<usize>().ok().filter(|&rank| rank < size);
    rank.ok_or_else(|| {
        let message = format!(
            "{name}: {} is not a rank of a communicator of size {size}; pass a number from 0 to {}",
            object
                .repr()
                .map_or_else(|_| described(object), |text| text.to_string()),
            size - 1
        );
        if object.is_instance_of::<PyInt>() {
            PyValueError::new_err(message)
        } else {
            PyTypeError::new_err(message)
        }
    })
}

/// Reads an argument that is a shape: a number, or a tuple of numbers.
pub(crate) fn shape(name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let wrong = |_| {
        PyTypeError::new_err(format!(
            "{name}: {} is no shape; pass a number or a tuple of numbers, none of them negative",
            object
                .repr()
                .map_or_else(|_| described(object), |text| text.to_string())
        ))
    };
    if let Ok(length) = object.extract::<usize>() {
        return Ok(vec![length]);
    }
    numbers(object).map_err(wrong)
}

/// Returns the numbers of a list or another sequence. Python treats bytes as numbers, but here they are a mistake.
pub(crate) fn numbers(object: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        return Err(PyTypeError::new_err("bytes"));
    }
    object.extract()
}
