//! A limit on connections that have not authenticated or sent a request yet.

use std::{collections::VecDeque, sync::Mutex};

use keyward_process::lock;
use tokio::sync::oneshot;

/// Connections in the order of their arrival. Beyond the limit the oldest is dropped, so that
/// silent clients cannot keep others out.
pub(crate) struct ConnectionLimit {
    /// Dropping one closes its connection.
    taken: Mutex<VecDeque<oneshot::Sender<()>>>,
    most: usize,
}

impl ConnectionLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Mutex::default(), most }
    }

    /// Counts a connection until the returned receiver is dropped. The receiver resolves when the
    /// connection has to close to make room.
    pub(crate) fn enter(&self) -> oneshot::Receiver<()> {
        let (place, leave) = oneshot::channel();
        let mut taken = lock(&self.taken);
        // First forget those that have closed already.
        taken.retain(|place| !place.is_closed());
        if taken.len() >= self.most {
            taken.pop_front();
        }
        taken.push_back(place);
        leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_is_dropped_and_closed_ones_do_not_count() {
        let places = ConnectionLimit::new(2);
        let (mut first, second) = (places.enter(), places.enter());
        drop(second);
        let mut third = places.enter();
        assert!(first.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        let _fourth = places.enter();
        assert!(first.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
        assert!(third.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
    }
}
