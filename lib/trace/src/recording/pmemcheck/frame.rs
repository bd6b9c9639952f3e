//! A frame of a stack, as valgrind describes it.

use crate::events::Location;

/// What a frame says: its address, and what is known of it.
///
/// It is `0xADDRESS: FUNCTION (FILE:LINE)` or `0xADDRESS: FUNCTION (in MODULE)`, with `???` for
/// what is not known, and once for each function that is inlined there, the innermost first
/// (valgrind's `VG_(describe_IP)` in `coregrind/m_debuginfo/debuginfo.c`).
pub fn location(text: &str, unknown_module: &str) -> Option<Location> {
    let (address, _) = text.split_once(": ")?;
    let number = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    let mut location = Location::bare(unknown_module, number);
    let prefix = format!("{address}: ");
    let parts: Vec<&str> = text.split(&*prefix).skip(1).collect();
    let (first, last) = (parts.first()?, parts.last()?);
    let known = |name: &str| (name != "???").then(|| name.to_owned());
    let (inner, place) = pieces(first);
    let (outer, module) = pieces(last);
    location.function = known(outer);
    location.inlined = if parts.len() > 1 { known(inner) } else { None };
    if let Some(module) = module.and_then(|module| module.strip_prefix("in ")).and_then(known) {
        location.module = module;
    }
    if let Some((file, line)) = place.and_then(|place| place.rsplit_once(':'))
        && let Ok(line) = line.parse()
    {
        (location.file, location.line) = (known(file), Some(line));
    }
    Some(location)
}

// The function, and what stands in the brackets at the end. Functions of C++ have brackets, too.
fn pieces(text: &str) -> (&str, Option<&str>) {
    let text = text.trim_end();
    match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((function, place)) if place.starts_with("in ") || place.contains(':') => {
            (function, Some(place))
        }
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The forms that its source lists.
    #[test]
    fn every_form_is_read() {
        let of = |text: &str| {
            let place = location(text, "[program]").unwrap();
            assert_eq!((place.address, place.offset), (0x80483BF, 0));
            let line = place.line.map(|line| format!("{}:{line}", place.file.unwrap_or_default()));
            (place.function, place.module, line, place.inlined)
        };
        let named = |name: &str| Some(name.to_owned());
        let (program, lib) = ("[program]".to_owned(), "/foo/a.out".to_owned());
        assert_eq!(
            of("0x80483BF: really (a.c:20)"),
            (named("really"), program.clone(), named("a.c:20"), None)
        );
        assert_eq!(
            of("0x80483BF: really (in /foo/a.out)"),
            (named("really"), lib.clone(), None, None)
        );
        assert_eq!(
            of("0x80483BF: really (in ???)"),
            (named("really"), program.clone(), None, None)
        );
        assert_eq!(of("0x80483BF: ??? (in /foo/a.out)"), (None, lib, None, None));
        assert_eq!(of("0x80483BF: ??? (a.c:20)"), (None, program.clone(), named("a.c:20"), None));
        assert_eq!(of("0x80483BF: ???"), (None, program.clone(), None, None));
        assert_eq!(
            of("0x80483BF: f(int, g::h const&) (a.cc:7)"),
            (named("f(int, g::h const&)"), program.clone(), named("a.cc:7"), None)
        );
        assert_eq!(
            of("0x80483BF: inner (i.h:5)0x80483BF: between (b.h:6)0x80483BF: outer (a.c:20)"),
            (named("outer"), program, named("i.h:5"), named("inner"))
        );
        assert_eq!(location("", ""), None);
        assert_eq!(location("main", ""), None);
        assert_eq!(location("0xzz: main", ""), None);
    }
}
