//! Bytes as people write them in one line of text: `PING\r\n`, `\x00\xff`.

/// The bytes that a text stands for: `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` are one byte each,
/// anything else is itself, as UTF-8.
///
/// ```
/// assert_eq!(ringfence_openloop::unescape(r"PING\r\n").unwrap(), b"PING\r\n");
/// assert_eq!(ringfence_openloop::unescape(r"\x00\xFF").unwrap(), [0, 255]);
/// assert!(ringfence_openloop::unescape(r"\q").unwrap_err().contains("'\\q'"));
/// ```
///
/// # Errors
///
/// One sentence, where a backslash begins none of these.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let after = &rest[at + 1..];
        let (byte, length) = match after.chars().next() {
            Some('r') => (b'\r', 1),
            Some('n') => (b'\n', 1),
            Some('t') => (b'\t', 1),
            Some('0') => (0, 1),
            Some('\\') => (b'\\', 1),
            Some('x') => (hexadecimal(after).ok_or_else(|| unknown(after))?, 3),
            _ => return Err(unknown(after)),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

fn hexadecimal(after: &str) -> Option<u8> {
    let digits =
        after.get(1..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

fn unknown(after: &str) -> String {
    let shown: String = after.chars().take(if after.starts_with('x') { 3 } else { 1 }).collect();
    format!(
        r"'\{shown}' is not an escape: write \r, \n, \t, \0, \\ or \xHH with two hexadecimal digits"
    )
}

/// The text that stands for bytes; [`unescape`] gives them back.
///
/// ```
/// assert_eq!(ringfence_openloop::escape(b"GET x\r\n\0\xff"), r"GET x\r\n\0\xff");
/// ```
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\r' => text.push_str(r"\r"),
                '\n' => text.push_str(r"\n"),
                '\t' => text.push_str(r"\t"),
                '\0' => text.push_str(r"\0"),
                '\\' => text.push_str(r"\\"),
                c if c.is_ascii_control() => text.push_str(&format!(r"\x{:02x}", u32::from(c))),
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!(r"\x{byte:02x}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).chain([b'\\', b'x', b'4', b'1']).collect();
        assert_eq!(unescape(&escape(&all)).unwrap(), all);
        assert_eq!(unescape(&escape("Grüße".as_bytes())).unwrap(), "Grüße".as_bytes());
    }

    #[test]
    fn what_is_no_escape_is_named() {
        for (text, named) in [
            (r"a\", r"'\'"),
            (r"\xg0", r"'\xg0'"),
            (r"\x1", r"'\x1'"),
            (r"\x+1", r"'\x+1'"),
            (r"\ü", r"'\ü'"),
        ] {
            let error = unescape(text).unwrap_err();
            assert!(error.starts_with(named), "{text}: {error}");
        }
    }
}
