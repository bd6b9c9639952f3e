//! A source file without what is not code of the program: comments, texts, and tests.

/// The code alone: comments and literals are blanked, and so is everything under `#[cfg(test)]`.
pub fn code(text: &str) -> String {
    without_tests(&without_literals(text))
}

fn without_literals(text: &str) -> String {
    let all: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let starts =
        |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| all.get(at + i) == Some(&c));
    while at < all.len() {
        if starts(at, "//") {
            while at < all.len() && all[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            while at < all.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if let Some(hashes) = raw(&all, at) {
            let end: String =
                std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            at += 2 + hashes;
            while at < all.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if all[at] == '"' {
            at += 1;
            while at < all.len() && all[at] != '"' {
                at += if all[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            out.push_str("\"\"");
        } else if all[at] == '\''
            && (all.get(at + 2) == Some(&'\'') || all.get(at + 1) == Some(&'\\'))
        {
            at += if all[at + 1] == '\\' { 3 } else { 2 };
            while at < all.len() && all[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else {
            out.push(all[at]);
            at += 1;
        }
    }
    out
}

// The number of hashes of a raw text that begins here.
fn raw(all: &[char], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).and_then(|before| all.get(before));
    if all[at] != 'r' || before.is_some_and(|c| c.is_alphanumeric() || *c == '_') {
        return None;
    }
    let hashes = all[at + 1..].iter().take_while(|c| **c == '#').count();
    (all.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn without_tests(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let end = match (item.find(';'), item.find('{')) {
            (Some(semicolon), brace) if brace.is_none_or(|brace| semicolon < brace) => {
                semicolon + 1
            }
            (_, Some(brace)) => brace + block(&item[brace..]),
            _ => item.len(),
        };
        rest = &item[end..];
    }
    out.push_str(rest);
    out
}

// The length of a block with its braces.
fn block(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

#[test]
fn only_code_is_left() {
    let text = "use a::B; // use c::D\nlet x = \"unsafe { \\\" }\"; let c = \
                '{'; let r = r#\"a \" b\"#;\n\
                #[cfg(test)]\nmod tests { fn f() { g() } }\nfn h<'a>() {}\n#[cfg(test)]\nmod \
                more;\nfn i() {}";
    let left = code(text);
    for gone in ["c::D", "unsafe", "tests", "more", "a \" b"] {
        assert!(!left.contains(gone), "{gone}: {left}");
    }
    for kept in ["use a::B;", "fn h<'a>() {}", "fn i() {}"] {
        assert!(left.contains(kept), "{kept}: {left}");
    }
}
