//! The names of the methods.

use std::fmt;

/// Names the method in which a [`CommError`](crate::CommError) occurred.
///
/// The collectives of [`Communicator`](crate::Communicator) and the calls of regions have a variant each; a function that is built on
/// them uses [`Other`](Self::Other). Conversion from a known name gives its variant, so that `==` compares the methods:
///
/// ```
/// use comm_api::Operation;
///
/// assert_eq!(Operation::from("fence"), Operation::Fence);
/// assert_eq!(Operation::from("exact_sums"), Operation::Other("exact_sums"));
/// assert_eq!(Operation::CreateGatheredRegion.to_string(), "create_gathered_region");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `barrier`
    Barrier,
    /// `broadcast`
    Broadcast,
    /// `allreduce`, with one buffer or two
    Allreduce,
    /// `allgatherv`
    Allgatherv,
    /// `fence` of a region
    Fence,
    /// `exchange` of a gathered region
    Exchange,
    /// `create_shared_region`
    CreateSharedRegion,
    /// `create_partitioned_region`
    CreatePartitionedRegion,
    /// `create_gathered_region`
    CreateGatheredRegion,
    /// `split_local`
    SplitLocal,
    /// A function that is built on the collectives.
    Other(&'static str),
}

impl Operation {
    /// All operations that have a variant of their own, in declaration order.
    pub const ALL: [Self; 10] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Allreduce,
        Self::Allgatherv,
        Self::Fence,
        Self::Exchange,
        Self::CreateSharedRegion,
        Self::CreatePartitionedRegion,
        Self::CreateGatheredRegion,
        Self::SplitLocal,
    ];

    /// Returns the name of the method.
    ///
    /// ```
    /// assert_eq!(comm_api::Operation::SplitLocal.as_str(), "split_local");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Allreduce => "allreduce",
            Self::Allgatherv => "allgatherv",
            Self::Fence => "fence",
            Self::Exchange => "exchange",
            Self::CreateSharedRegion => "create_shared_region",
            Self::CreatePartitionedRegion => "create_partitioned_region",
            Self::CreateGatheredRegion => "create_gathered_region",
            Self::SplitLocal => "split_local",
            Self::Other(name) => name,
        }
    }
}

impl From<&'static str> for Operation {
    fn from(name: &'static str) -> Self {
        let mut known = Self::ALL.into_iter();
        known
            .find(|operation| operation.as_str() == name)
            .unwrap_or(Self::Other(name))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
