//! What is counted.

use std::ops::Sub;

macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$what])* pub $field: u64,)* }

        // What a window adds.
        impl Sub for $name {
            type Output = Self;

            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

counters! {
    /// What a core's threads asked for and where it was found, since the start of the run.
    CoreCounters {
        /// Loads, and reads for ownership, whose line the first level had or had already asked for.
        l1_hits,
        /// Those that went beyond the first level.
        l1_misses,
        /// Of these, lines that the second level had.
        l2_hits,
        /// Lines that the last level had.
        llc_hits,
        /// Lines that another core had.
        other_core_hits,
        /// Lines that were read from memory, those fetched ahead included.
        memory_reads,
        /// Lines that were fetched ahead into the second level, from wherever they were.
        prefetches,
        /// Dirty lines that went to memory to make room.
        evictions,
        /// Flushes of lines that were dirty.
        dirty_flushes,
        /// Flushes of lines that were not.
        clean_flushes,
        /// Write-combining buffers that left.
        nt_lines,
        /// Of these, those that were not full.
        partial_nt_lines,
    }
}

counters! {
    /// What went over a channel, since the start of the run. Only a DIMM counts blocks and
    /// translations.
    ChannelCounters {
        /// Lines read over the bus.
        lines_read,
        /// Lines written over the bus.
        lines_written,
        /// Writes that came when the write pending queue was full.
        writes_that_waited,
        /// Lines read that the write pending queue had.
        reads_from_queue,
        /// Lines read that a DIMM's buffer had.
        reads_from_buffers,
        /// Lines written into a block that the buffer had.
        writes_combined,
        /// Blocks of 256 B read from the media for a read.
        blocks_read,
        /// Blocks of 256 B written to the media.
        blocks_written,
        /// Of these, those of which a part had to be read first.
        partial_blocks,
        /// Reads from the media without a translation at hand.
        translation_misses,
        /// Regions moved to level wear.
        wear_moves,
    }
}

impl ChannelCounters {
    /// Bytes over the bus.
    pub fn bytes(&self) -> u64 {
        crate::hardware::units::LINE * (self.lines_read + self.lines_written)
    }
}
