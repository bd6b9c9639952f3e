//! The tables of a recording, and what of a row is what.

use crate::recording::table::Kind::{Bytes, Rising, Text, U32, U64};
use crate::recording::table::{Table, optional, required};

/// What happened, in order.
pub const EVENTS: Table = Table {
    name: "events",
    columns: &[
        required("sequence", Rising),
        required("thread", U32),
        required("site", U32),
        required("callers", U32),
        required("action", Text),
        optional("file", U32),
        optional("offset", U64),
        optional("size", U64),
        optional("address", U64),
        optional("bytes", Bytes),
        // Since version 2.
        optional("began", U64),
    ],
};

/// What files held when their recording began: pages that are not all zeros.
pub const IMAGES: Table = Table {
    name: "images",
    columns: &[required("file", U32), required("offset", Rising), required("bytes", Bytes)],
};

/// Instructions.
pub const SITES: Table = Table {
    name: "sites",
    columns: &[
        required("site", U32),
        required("module", Text),
        required("address", U64),
        required("instruction", Bytes),
    ],
};

/// Frames, one a row, the innermost at depth 0.
pub const CALLERS: Table = Table {
    name: "callers",
    columns: &[
        required("callers", U32),
        required("depth", U32),
        required("module", Text),
        required("address", U64),
    ],
};

/// What is known of the places that sites and callers name.
pub const LOCATIONS: Table = Table {
    name: "locations",
    columns: &[
        required("module", Text),
        required("address", U64),
        optional("function", Text),
        required("function_offset", U64),
        optional("inlined", Text),
        optional("source", Text),
        optional("line", U32),
    ],
};
