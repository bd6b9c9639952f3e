//! Where instructions are in the source.

use ringfence_trace::recording::Reader;

use crate::program::OF_RECOVERY;

/// The recordings that instructions belong to.
#[derive(Debug, Clone, Copy)]
pub struct Places<'r> {
    /// Of the program.
    pub program: &'r Reader,
    /// Of a recovery after it was killed; its numbers have [`OF_RECOVERY`] added.
    pub recovery: Option<&'r Reader>,
}

impl Places<'_> {
    /// The name of an instruction's place.
    pub fn name(&self, site: u32) -> String {
        let (reader, number) = match site.checked_sub(OF_RECOVERY) {
            Some(number) => (self.recovery, number),
            None => (Some(self.program), site),
        };
        let place = reader.and_then(|reader| {
            let site = reader.site(number)?;
            Some(reader.location(&site.module, site.address).name())
        });
        place.unwrap_or_else(|| "unknown".into())
    }
}
