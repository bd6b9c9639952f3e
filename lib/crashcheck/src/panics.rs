//! Panics of what is under check: results, and no news for the terminal.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What recovery panicked with, and where.
pub(crate) fn message(thrown: &Box<dyn Any + Send>) -> String {
    let text = match (thrown.downcast_ref::<String>(), thrown.downcast_ref::<&str>()) {
        (Some(text), _) => format!(": {text}"),
        (_, Some(text)) => format!(": {text}"),
        _ => String::new(),
    };
    let place = PLACE.take().map(|(file, line)| format!(" at {file}:{line}")).unwrap_or_default();
    format!("recovery panicked{place}{text}")
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    // Of the last panic.
    static PLACE: Cell<Option<(String, u32)>> = const { Cell::new(None) };
}

/// Runs it, and says nothing where it panics.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PLACE.set(info.location().map(|at| (at.file().to_owned(), at.line())));
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    result
}
