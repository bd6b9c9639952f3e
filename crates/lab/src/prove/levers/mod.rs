//! The levers that need no privilege beyond making a control group.

mod environment;
mod instruction;
mod pace;
mod placement;
mod quota;

use super::lever::Lever;

/// All of them, in the order in which they are shown.
pub fn all() -> Vec<Box<dyn Lever>> {
    vec![
        Box::new(placement::OtherPlacement),
        Box::new(instruction::GentlerInstruction),
        Box::new(environment::Environment),
        Box::new(pace::Pacing),
        Box::new(quota::Quota),
    ]
}
