//! Durable memory.
