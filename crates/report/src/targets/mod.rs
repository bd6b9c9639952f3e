//! Where stores can become durable here.

pub(crate) mod text;
