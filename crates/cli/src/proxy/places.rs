//! Few places for those who have not said yet what they want.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::sync::oneshot;

/// Places in the order in which they were taken. When there is none left, whoever has waited longest
/// has to leave: nobody keeps others out by saying nothing.
pub(crate) struct Places {
    /// To drop one is to show it the door.
    taken: Mutex<VecDeque<oneshot::Sender<()>>>,
    most: usize,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { taken: Mutex::default(), most }
    }

    /// Takes a place. What it returns resolves when that is needed for others, and gives it back when
    /// dropped.
    pub(crate) fn enter(&self) -> oneshot::Receiver<()> {
        let (place, leave) = oneshot::channel();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who have left on their own first.
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
    fn the_one_that_waited_longest_leaves_and_those_who_left_take_no_place() {
        let places = Places::new(2);
        let (mut first, second) = (places.enter(), places.enter());
        drop(second);
        let mut third = places.enter();
        assert!(first.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
        let _fourth = places.enter();
        assert!(first.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Closed));
        assert!(third.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty));
    }
}
