//! Transactions on the model of the kernel: whatever happens, everything is as it was before.

mod concurrent_changes;
mod crashes;
mod identity;
mod journal_folders;
mod new_threads;
mod offline;
mod temporary_settings;
mod world;
