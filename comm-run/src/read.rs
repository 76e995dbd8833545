//! One place to read into, shared by all streams of a job.
//!
//! A stream that is silent holds no memory then, and what is kept of a read is as large as what was read.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};

/// As much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

thread_local! {
    /// Used within one poll only, so that no two streams meet in it.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Appends what there is to `buffer`, waits for something if there is nothing, and returns how much it is; 0 at the end.
pub(crate) async fn read_into(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut *reader).poll_read(context, &mut read))?;
            buffer.extend_from_slice(read.filled());
            Ok(read.filled().len()).into()
        })
    })
    .await
}
