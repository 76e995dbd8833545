//! Memory that the allocator may refuse.

use bytemuck::allocation::try_zeroed_vec;

use crate::element::CommData;
use crate::error::CommError;

/// Allocates `count` zeroed elements.
///
/// # Errors
///
/// [`CommError::AllocationFailed`] if the allocator refuses them, or if they exceed `isize::MAX` bytes.
pub fn zeroed_vec<T: CommData>(count: usize) -> Result<Vec<T>, CommError> {
    try_zeroed_vec(count).map_err(|()| {
        let requested_bytes = count.saturating_mul(size_of::<T>());
        CommError::allocation_failed(
            requested_bytes,
            "the system has too little memory; ask for less",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_addressed_is_refused_and_counted() {
        for count in [usize::MAX, isize::MAX.unsigned_abs() / 8 + 1] {
            let requested = count.saturating_mul(8);
            match zeroed_vec::<u64>(count) {
                Err(CommError::AllocationFailed {
                    requested_bytes, ..
                }) => assert_eq!(requested_bytes, requested),
                other => panic!("{count}: {:?}", other.map(|vec| vec.len())),
            }
        }
    }

    #[test]
    fn elements_of_any_kind_are_zeroed() {
        assert_eq!(zeroed_vec::<u16>(3).unwrap(), [0; 3]);
        assert_eq!(zeroed_vec::<f64>(0).unwrap(), []);
        assert_eq!(zeroed_vec::<()>(usize::MAX).unwrap().len(), usize::MAX);
        assert_eq!(zeroed_vec::<u8>(2 << 20).unwrap(), vec![0; 2 << 20]);
    }
}
