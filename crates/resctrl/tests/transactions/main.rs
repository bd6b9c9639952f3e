//! Transactions on the model of the kernel: whatever happens, everything is as it was before.

mod killed;
mod others;
mod world;
