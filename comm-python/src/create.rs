//! `shared_array`, `partitioned_array` and `gathered_array`.

use comm_factory::CommBackend;
use comm_factory::api::{CommError, SharedMemoryProvider};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::argument;
use crate::call::{checked, run};
use crate::gather::{agree, words};
use crate::numpy::{check_plain, mix, numpy, signature};
use crate::region::{Layout, Region, SharedArray, Whole};

/// The three kinds of regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionKind {
    Shared,
    Partitioned,
    Gathered,
}

/// The kind, shape and dtype of a new array.
struct Wanted<'py> {
    dtype: Bound<'py, PyAny>,
    shape: Vec<usize>,
    itemsize: usize,
    bytes: usize,
    /// Identifies the properties that must be the same on all ranks.
    alike: u64,
}

/// Creates an array that the ranks of a machine share.
pub(crate) fn create<'py>(
    comm: &CommBackend,
    kind: RegionKind,
    shape: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<SharedArray> {
    let py = shape.py();
    let operation = match kind {
        RegionKind::Shared => "shared_array",
        RegionKind::Partitioned => "partitioned_array",
        RegionKind::Gathered => "gathered_array",
    };
    let wanted = Wanted::new(py, kind, shape, dtype);
    // If ranks do not share memory, each creates its array alone, unless it belongs to the whole job: there is nothing to agree on, and
    // no other rank is waiting.
    let is_shared = comm.name() == "shm" || kind == RegionKind::Gathered;
    let wanted = if is_shared {
        checked(py, comm, operation, wanted)?
    } else {
        wanted?
    };
    let rows = wanted.shape.first().copied().unwrap_or(0);
    let mut all_rows = rows;
    if is_shared {
        let all = words(py, comm, operation, [rows as u64, wanted.alike])?;
        agree(py, comm, operation, &all, || wanted.described())?;
        let all = all.iter().map(|&[rows, _]| usize::try_from(rows));
        let all = all.map(|rows| rows.unwrap_or(usize::MAX));
        all_rows = all.fold(0, usize::saturating_add);
    }
    let &Wanted {
        itemsize, bytes, ..
    } = &wanted;
    let region = run(py, operation, || -> Result<Region, CommError> {
        match kind {
            RegionKind::Shared => Region::shared(comm, bytes, itemsize),
            RegionKind::Partitioned => Region::partitioned(comm, bytes, itemsize),
            RegionKind::Gathered => Region::gathered(comm, bytes, itemsize),
        }
    })?;
    let (first, row) = match wanted.shape.split_first() {
        Some((&first, row)) => (Some(first), row.to_vec()),
        None => (None, Vec::new()),
    };
    let whole = match kind {
        RegionKind::Shared => Whole::Shared(first, comm.is_leader()),
        RegionKind::Partitioned => Whole::Partitioned(rows, all_rows),
        RegionKind::Gathered => Whole::Gathered(rows, all_rows),
    };
    let layout = Layout { whole, row };
    Ok(SharedArray::new(region, layout, wanted.dtype.unbind()))
}

impl<'py> Wanted<'py> {
    fn new(
        py: Python<'py>,
        kind: RegionKind,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let numpy = numpy(py)?;
        let dtype = match dtype {
            Some(dtype) => numpy.dtype.bind(py).call1((dtype,)),
            None => numpy.dtype.bind(py).call1(("float64",)),
        };
        let dtype = dtype.map_err(|error| {
            let told = PyValueError::new_err(format!("dtype: {}", error.value(py)));
            told.set_cause(py, Some(error));
            told
        })?;
        check_plain(numpy, "dtype", &dtype)?;
        if !dtype.getattr(intern!(py, "subdtype"))?.is_none() {
            return Err(PyValueError::new_err(format!(
                "dtype: {dtype} contains a shape; pass its base dtype, and put its lengths into shape"
            )));
        }
        let itemsize: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
        let shape = argument::shape("shape", shape)?;
        if !numpy.has_axes(py, shape.len()) {
            return Err(PyValueError::new_err(format!(
                "shape: it has {} axes, more than a numpy array can have; pass fewer lengths",
                shape.len()
            )));
        }
        let row = shape.get(1..).unwrap_or_default();
        if kind != RegionKind::Shared && shape.is_empty() {
            let name = if kind == RegionKind::Gathered {
                "gathered"
            } else {
                "partitioned"
            };
            return Err(PyValueError::new_err(format!(
                "shape: a {name} array has at least one axis, which divides it into parts; pass the number of rows of this rank first"
            )));
        }
        let mut lengths = shape.iter();
        let bytes = lengths.try_fold(itemsize, |bytes, &length| bytes.checked_mul(length));
        let Some(bytes) = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) else {
            return Err(PyValueError::new_err(format!(
                "shape: {shape:?} of {itemsize} bytes each is larger than the address space"
            )));
        };
        let fixed = if kind == RegionKind::Shared {
            &shape
        } else {
            row
        };
        let alike = fixed
            .iter()
            .fold(mix(2, signature(numpy, &dtype)?), |hash, &length| {
                mix(hash, length as u64)
            });
        Ok(Self {
            dtype,
            itemsize,
            bytes,
            alike: mix(alike, kind as u64),
            shape,
        })
    }

    fn described(&self) -> String {
        format!(
            "an array of shape {:?} and dtype {}",
            self.shape, self.dtype
        )
    }
}
