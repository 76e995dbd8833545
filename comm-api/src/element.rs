//! The types that can be sent, and those that can be reduced.

use bytemuck::Pod;

use crate::op::ScalarKind;

/// Marks a type whose values can be sent through collectives and stored in shared regions.
///
/// Implemented for every type that is plain old data ([`bytemuck::Pod`]) and may cross threads:
/// every bit pattern is a value and there is no padding, so a value is its bytes. `bool`,
/// references and structs with padding are not; a `repr(C)` struct of such fields is, through the
/// derives of the re-exported [`bytemuck`](crate::bytemuck):
///
/// ```
/// use comm_api::Communicator;
/// use comm_api::bytemuck::{Pod, Zeroable};
/// use comm_local::LocalBackend;
///
/// #[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
/// #[repr(C)]
/// #[bytemuck(crate = "comm_api::bytemuck")]
/// struct Cut {
///     stage: u64,
///     intercept: f64,
/// }
///
/// # fn main() -> Result<(), comm_api::CommError> {
/// let mine = [Cut { stage: 3, intercept: 1.5 }];
/// let mut all = [Cut::zeroed()];
/// LocalBackend.allgatherv(&mine, &mut all, &[1], &[0])?;
/// assert_eq!(all, mine);
/// # Ok(())
/// # }
/// ```
///
/// A type with padding does not compile, which is the point:
///
/// ```compile_fail
/// use comm_api::CommData;
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Padded {
///     tag: u8,
///     value: u64,
/// }
///
/// fn travels<T: CommData>() {}
/// travels::<Padded>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between ranks: it is not plain old data",
    label = "every bit pattern must be a value, and there must be no padding",
    note = "a `bool` or a `char` travels as a number, `u8` or `u32`; an enum as the number of its variant; a tuple as a struct",
    note = "a struct travels with `#[derive(Clone, Copy, Pod, Zeroable)] #[repr(C)] #[bytemuck(crate = \"comm_factory::api::bytemuck\")]`, \
            after `use comm_factory::api::bytemuck::{{Pod, Zeroable}}`; without comm-factory it is `comm_api::bytemuck`"
)]
pub trait CommData: Pod + Send + Sync {}

// The message for a `bool` says so, instead of listing the types that implement `Pod`.
#[diagnostic::do_not_recommend]
impl<T: Pod + Send + Sync> CommData for T {}

/// Marks the scalars that [`allreduce`](crate::Communicator::allreduce) can combine.
///
/// Sealed: the ten scalars of [`ScalarKind`] and `isize`/`usize`, which reduce as the scalar of
/// their width. A reduction must give the same bits on every backend, so its arithmetic is written
/// once, in [`ReduceOp::fold_into`](crate::ReduceOp::fold_into), for these types alone.
#[diagnostic::on_unimplemented(
    message = "there is no reduction for `{Self}`",
    label = "not one of the integers and floats that ranks can combine",
    note = "a `bool` is reduced as `u8`: `Max` is any, `Min` is all; the fields of a struct are reduced one by one",
    note = "`i128` and `u128` have no reduction; sums of floats that do not depend on the number of ranks are in `comm-exact`"
)]
pub trait Reduce: CommData + sealed::Sealed {
    /// The scalar this type reduces as.
    const SCALAR: ScalarKind;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! reduce {
    ($($scalar:ty => $kind:expr),+ $(,)?) => {$(
        impl sealed::Sealed for $scalar {}
        impl Reduce for $scalar {
            const SCALAR: ScalarKind = $kind;
        }
    )+};
}

reduce! {
    i8 => ScalarKind::I8,
    i16 => ScalarKind::I16,
    i32 => ScalarKind::I32,
    i64 => ScalarKind::I64,
    isize => pointer_sized(ScalarKind::I32, ScalarKind::I64),
    u8 => ScalarKind::U8,
    u16 => ScalarKind::U16,
    u32 => ScalarKind::U32,
    u64 => ScalarKind::U64,
    usize => pointer_sized(ScalarKind::U32, ScalarKind::U64),
    f32 => ScalarKind::F32,
    f64 => ScalarKind::F64,
}

const fn pointer_sized(narrow: ScalarKind, wide: ScalarKind) -> ScalarKind {
    match size_of::<usize>() {
        4 => narrow,
        8 => wide,
        _ => panic!("comm-api supports pointers of 32 and 64 bits"),
    }
}
