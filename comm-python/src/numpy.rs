//! The functions and types of numpy that this crate uses, looked up once.

use std::sync::{Mutex, PoisonError};

use comm_factory::api::{Label, ScalarKind};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// Functions and types of numpy.
#[derive(Debug)]
pub(crate) struct Numpy {
    pub(crate) ndarray: Py<PyType>,
    pub(crate) generic: Py<PyType>,
    pub(crate) asarray: Py<PyAny>,
    pub(crate) from_dlpack: Py<PyAny>,
    pub(crate) dtype: Py<PyAny>,
    pub(crate) intp: Py<PyAny>,
    empty: Py<PyAny>,
    frombuffer: Py<PyAny>,
    /// The dtype of each scalar, in the order of [`ScalarKind::ALL`], and the type of its numbers.
    scalars: [(Py<PyAny>, Py<PyAny>); 10],
}

/// Returns the functions and types of numpy.
#[inline]
pub(crate) fn numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
    NUMPY.get_or_try_init(py, || Numpy::import(py))
}

impl Numpy {
    fn import(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("numpy")?;
        let class = |name: &str| -> PyResult<Py<PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let object = |name: &str| module.getattr(name).map(Bound::unbind);
        let dtype = module.getattr("dtype")?;
        let scalar = |kind: ScalarKind| -> PyResult<(Py<PyAny>, Py<PyAny>)> {
            let dtype = dtype.call1((name(kind),))?;
            let number = dtype.getattr("type")?;
            Ok((dtype.unbind(), number.unbind()))
        };
        let scalars: PyResult<Vec<_>> = ScalarKind::ALL.into_iter().map(scalar).collect();
        let Ok(scalars) = scalars?.try_into() else {
            unreachable!("there are ten scalars");
        };
        Ok(Self {
            ndarray: class("ndarray")?,
            generic: class("generic")?,
            asarray: object("asarray")?,
            from_dlpack: object("from_dlpack")?,
            intp: dtype.call1(("intp",))?.unbind(),
            dtype: dtype.unbind(),
            empty: object("empty")?,
            frombuffer: object("frombuffer")?,
            scalars,
        })
    }

    /// Returns whether `object` is exactly an array, not of a subclass.
    #[inline]
    pub(crate) fn is_array(&self, object: &Bound<'_, PyAny>) -> bool {
        object.get_type().is(&self.ndarray)
    }

    /// Returns whether an array has a mask. No array can have one before the program imports `numpy.ma`, so this does not import it: that takes a
    /// tenth of the time of numpy.
    pub(crate) fn is_masked(array: &Bound<'_, PyAny>) -> PyResult<bool> {
        let modules = array.py().import("sys")?.getattr("modules")?;
        let module = modules.call_method1("get", ("numpy.ma",))?;
        if module.is_none() {
            return Ok(false);
        }
        array.is_instance(&module.getattr("MaskedArray")?)
    }

    /// Returns which of the ten scalars a dtype is.
    #[inline]
    pub(crate) fn scalar(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Option<ScalarKind>> {
        let known = self.scalars.iter().position(|(known, _)| dtype.is(known));
        match known {
            Some(index) => Ok(Some(ScalarKind::ALL[index])),
            None => by_name(dtype),
        }
    }

    /// Returns the type of the numbers of a scalar.
    #[inline]
    pub(crate) fn number(&self, kind: ScalarKind) -> &Py<PyAny> {
        &self.scalars[kind as usize].1
    }

    /// Creates an array with unspecified contents.
    #[inline]
    pub(crate) fn empty<'py>(
        &self,
        py: Python<'py>,
        shape: Bound<'py, PyTuple>,
        dtype: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.empty.bind(py).call1((shape, dtype))
    }

    /// Returns whether numpy allows an array with this number of axes.
    pub(crate) fn has_axes(&self, py: Python<'_>, axes: usize) -> bool {
        let empty = PyTuple::new(py, vec![0; axes]);
        empty.is_ok_and(|shape| self.empty.bind(py).call1((shape,)).is_ok())
    }

    /// Creates an array over the memory that `exporter` exports.
    pub(crate) fn over<'py>(
        &self,
        exporter: Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        shape: Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = exporter.py();
        let flat = self.frombuffer.bind(py).call1((exporter, dtype))?;
        flat.call_method1(intern!(py, "reshape"), (shape,))
    }
}

/// Finds a scalar that has several dtypes, such as the C types `long` and `long long`.
#[cold]
fn by_name(dtype: &Bound<'_, PyAny>) -> PyResult<Option<ScalarKind>> {
    let text = dtype.getattr(intern!(dtype.py(), "str"))?;
    let text: String = text.extract()?;
    let kind = |kind: &ScalarKind| text == format!("{}{}", order(*kind), code(*kind));
    Ok(ScalarKind::ALL.into_iter().find(kind))
}

/// Returns the character by which numpy writes the byte order.
fn order(kind: ScalarKind) -> char {
    match kind.size() {
        1 => '|',
        _ if cfg!(target_endian = "little") => '<',
        _ => '>',
    }
}

/// Returns the code of a scalar without its byte order: `f8`.
fn code(kind: ScalarKind) -> String {
    let letter = match kind {
        ScalarKind::F32 | ScalarKind::F64 => 'f',
        ScalarKind::U8 | ScalarKind::U16 | ScalarKind::U32 | ScalarKind::U64 => 'u',
        ScalarKind::I8 | ScalarKind::I16 | ScalarKind::I32 | ScalarKind::I64 => 'i',
    };
    format!("{letter}{}", kind.size())
}

/// Returns the name of a scalar in numpy.
fn name(kind: ScalarKind) -> &'static str {
    match kind {
        ScalarKind::I8 => "int8",
        ScalarKind::I16 => "int16",
        ScalarKind::I32 => "int32",
        ScalarKind::I64 => "int64",
        ScalarKind::U8 => "uint8",
        ScalarKind::U16 => "uint16",
        ScalarKind::U32 => "uint32",
        ScalarKind::U64 => "uint64",
        ScalarKind::F32 => "float32",
        ScalarKind::F64 => "float64",
    }
}

/// Returns the dtype of an array.
#[inline]
pub(crate) fn dtype_of<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    array.getattr(intern!(array.py(), "dtype"))
}

/// Checks that elements of a dtype consist of their bytes (no references to objects, not empty), and returns the label that must be the
/// same on all ranks.
#[inline]
pub(crate) fn check_plain(
    numpy: &Numpy,
    name: &'static str,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<Label> {
    let known = numpy.scalars.iter().position(|(known, _)| dtype.is(known));
    match known {
        Some(index) => Ok(Label::scalar(ScalarKind::ALL[index])),
        None => other_label(numpy, name, dtype),
    }
}

/// Returns the label of a dtype that is not the usual one of a scalar. Computing it takes the text of the dtype, so the latest are cached.
fn other_label(numpy: &Numpy, name: &'static str, dtype: &Bound<'_, PyAny>) -> PyResult<Label> {
    const KEPT: usize = 16;
    static LATEST: Mutex<Vec<(Py<PyAny>, Label)>> = Mutex::new(Vec::new());
    // Never held while Python code runs, so under the lock of the interpreter no other thread waits for it.
    let latest = || LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = latest()
        .iter()
        .find(|(kept, _)| dtype.is(kept))
        .map(|&(_, label)| label);
    if let Some(label) = kept {
        return Ok(label);
    }
    check_other(name, dtype)?;
    let label = match numpy.scalar(dtype)? {
        Some(kind) => Label::scalar(kind),
        None => Label::hashed(signature(numpy, dtype)?),
    };
    let mut latest = latest();
    let oldest = (latest.len() == KEPT).then(|| latest.remove(0));
    latest.push((dtype.clone().unbind(), label));
    // Dropped only after the lock is released, because dropping it may run Python code.
    drop(latest);
    drop(oldest);
    Ok(label)
}

fn check_other(name: &'static str, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = dtype.py();
    if dtype.getattr(intern!(py, "hasobject"))?.is_truthy()? {
        return Err(PyTypeError::new_err(format!(
            "{name}: the dtype {dtype} holds references to objects, which have no meaning in another process; pass an array with a \
            plain dtype, or pass the object itself to broadcast_object or allgather_object"
        )));
    }
    if dtype.getattr(intern!(py, "itemsize"))?.extract::<usize>()? == 0 {
        return Err(PyTypeError::new_err(format!(
            "{name}: elements of the dtype {dtype} have no bytes; pass an array with a dtype that has a size, such as S8 or U8"
        )));
    }
    Ok(())
}

/// Returns a number that identifies a dtype: the same in every process for the same dtype.
pub(crate) fn signature(numpy: &Numpy, dtype: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Some(kind) = numpy.scalar(dtype)? {
        return Ok(kind as u64);
    }
    let text = dtype.getattr(intern!(dtype.py(), "str"))?;
    // The letter V tells only the number of bytes; the fields, or the name of another library's dtype, are in the repr.
    let text: String = text.extract()?;
    let text = if text.contains('V') {
        dtype.repr()?.extract()?
    } else {
        text
    };
    Ok(text
        .bytes()
        .fold(mix(0, 0), |hash, byte| mix(hash, byte.into())))
}

/// Mixes a number into a hash.
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash ^ number ^ 0x243f_6a88_85a3_08d3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
