//! Transactions on the model of the kernel: whatever happens, everything is as it was before.

mod born;
mod killed;
mod lent;
mod offline;
mod others;
mod places;
mod same;
mod world;
