//! From an exec plan to a credential: ask, run, read.
