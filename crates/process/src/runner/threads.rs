//! Threads that Keyward keeps, so that runs belong to no runtime.

use std::{
    collections::VecDeque,
    panic::{self, AssertUnwindSafe},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::lock;

/// Runs a job on a kept thread: an idle one, or a new one. Threads that were idle for ten seconds
/// end. When the system has no thread to give, the job is dropped; what it owns
/// tells whoever waits for it by its own `Drop`.
pub fn spawn(job: impl FnOnce() + Send + 'static) {
    let job: Job = Box::new(job);
    let mut pool = lock(&POOL);
    if pool.idle > pool.jobs.len() {
        pool.jobs.push_back(job);
        drop(pool);
        WORK.notify_one();
        return;
    }
    drop(pool);
    let thread = thread::Builder::new().name("keyward".into());
    if let Err(error) = thread.spawn(move || work(job)) {
        tracing::error!(%error, "no thread for a plugin run");
    }
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    idle: usize,
}

/// No job runs under this lock, so nothing can panic under it.
static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), idle: 0 });
static WORK: Condvar = Condvar::new();
const PATIENCE: Duration = Duration::from_secs(10);

fn work(first: Job) {
    let mut next = Some(first);
    while let Some(job) = next {
        // A job that panics has told whoever waits by dropping what it held; the thread goes on.
        let _ = panic::catch_unwind(AssertUnwindSafe(job));
        next = wait();
    }
}

fn wait() -> Option<Job> {
    let mut pool = lock(&POOL);
    pool.idle += 1;
    let (mut pool, _) = WORK
        .wait_timeout_while(pool, PATIENCE, |pool| pool.jobs.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    pool.idle -= 1;
    pool.jobs.pop_front()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_job_that_panics_does_not_take_the_next_one_with_it() {
        let (send, receive) = mpsc::channel();
        for number in 0..50 {
            let send = send.clone();
            spawn(move || {
                assert!(number % 2 == 0, "an odd job");
                send.send(number).unwrap();
            });
        }
        drop(send);
        let mut done: Vec<_> = receive.iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..50).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn jobs_that_wait_for_each_other_all_get_a_thread() {
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(21));
        for _ in 0..20 {
            let barrier = std::sync::Arc::clone(&barrier);
            spawn(move || {
                barrier.wait();
            });
        }
        barrier.wait();
    }
}
