//! The operations of a reduction, and its scalars.

use std::fmt;

/// Names an element-wise reduction.
///
/// Every operation is a left fold in rank order, see [`fold_into`](Self::fold_into).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Adds. Integers wrap; floats follow IEEE 754, one addition per rank, never reassociated.
    Sum,
    /// Takes the smaller. Floats: IEEE 754-2019 `minimum`, NaN wins and -0 < +0.
    Min,
    /// Takes the larger. Floats: IEEE 754-2019 `maximum`, NaN wins and -0 < +0.
    Max,
    /// Bitwise or. Integers only.
    BitwiseOr,
    /// Bitwise and. Integers only.
    BitwiseAnd,
    /// Multiplies. Integers wrap; floats follow IEEE 754, one multiplication per rank, never reassociated.
    Prod,
    /// Exclusive or of the bits. Integers only.
    BitwiseXor,
}

impl ReduceOp {
    /// All operations, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::BitwiseOr,
        Self::BitwiseAnd,
        Self::Prod,
        Self::BitwiseXor,
    ];

    /// Returns whether this operation is bitwise, and therefore not defined for floats.
    #[must_use]
    pub const fn is_bitwise(self) -> bool {
        matches!(self, Self::BitwiseOr | Self::BitwiseAnd | Self::BitwiseXor)
    }

    /// Returns whether this operation is defined for `scalar`.
    #[must_use]
    pub const fn supports(self, scalar: ScalarKind) -> bool {
        !(self.is_bitwise() && scalar.is_float())
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sum => "Sum",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::BitwiseOr => "BitwiseOr",
            Self::BitwiseAnd => "BitwiseAnd",
            Self::Prod => "Prod",
            Self::BitwiseXor => "BitwiseXor",
        })
    }
}

/// Names the scalar type of a reduction buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarKind {
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl ScalarKind {
    /// All scalars, in declaration order.
    pub const ALL: [Self; 10] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// Returns the size of one scalar in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns whether this is a floating-point scalar.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl fmt::Display for ScalarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}
