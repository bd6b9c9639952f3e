//! Durable memory: the instructions that move a store towards the medium, and the mapped regions
//! they work on.
//!
//! Two modules, and the only two with `unsafe` code: [`isa`] holds every inline-assembly statement
//! of the project, [`region`] maps memory. What is called durable, and when, is decided by those
//! who use them; what is cheap on a machine is measured and written down in a [`policy`] file.
//!
//! ```
//! use ringfence_persist::{Flush, Region, Request, isa};
//!
//! let region = Region::map(&Request::dram(1 << 20)).unwrap();
//! if isa::supports(Flush::Clwb) {
//!     // SAFETY: the line lies inside the region, and the CPU has the instruction.
//!     unsafe {
//!         region.base().write(42);
//!         isa::clwb(region.base());
//!         isa::sfence();
//!     }
//! }
//! ```

pub mod checksum;
pub mod isa;
mod mapped;
pub mod memory;
pub mod policy;
pub mod record;
pub mod region;
pub mod ring;
pub mod stores;
pub mod ways;

pub use isa::{Flush, LINE, Width};
pub use mapped::Mapped;
pub use memory::Memory;
pub use region::{Domain, Durability, Explanation, Medium, Pages, Region, RegionError, Request};
pub use ring::Ring;
pub use stores::{Durable, Lost, Stores};
pub use ways::Ways;
