//! How long an answer is, learned from the first ones.

use crate::frame::End;

/// How many answers are learned from.
pub const ANSWERS: usize = 3;

/// How an answer ends, from some whole answers.
///
/// # Errors
///
/// One sentence, where they differ in length or one is empty.
pub fn learn(answers: &[Vec<u8>]) -> Result<End, String> {
    let lengths: Vec<usize> = answers.iter().map(Vec::len).collect();
    let (Some(least), Some(most)) = (lengths.iter().min(), lengths.iter().max()) else {
        return Err("there is no answer to learn from".into());
    };
    if *least == 0 {
        return Err("the end of an empty answer is not visible".into());
    }
    if least != most {
        let together = if answers.iter().all(|answer| answer.ends_with(b"\r\n")) {
            r#" (all of them end with "\r\n")"#
        } else if answers.iter().all(|answer| answer.ends_with(b"\n")) {
            r#" (all of them end with "\n")"#
        } else {
            ""
        };
        return Err(format!(
            "the first {} answers had between {least} and {most} bytes, so their length does not \
             show where the next one ends: give the bytes that an answer ends with{together}, or \
             use a question whose answers have one length",
            answers.len()
        ));
    }
    let first = answers[0][0];
    Ok(End::Length(*least, answers.iter().all(|answer| answer[0] == first).then_some(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answers: &[&str]) -> Result<End, String> {
        learn(&answers.iter().map(|answer| answer.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn equal_lengths_are_learned_and_so_is_how_they_begin() {
        assert_eq!(of(&["+PONG\r\n"; 3]), Ok(End::Length(7, Some(b'+'))));
        assert_eq!(of(&["12", "13", "24"]), Ok(End::Length(2, None)));
    }

    #[test]
    fn different_lengths_say_what_to_do() {
        let error = of(&[":9\r\n", ":10\r\n", ":11\r\n"]).unwrap_err();
        assert!(
            error.contains("between 4 and 5 bytes") && error.contains(r#"end with "\r\n""#),
            "{error}"
        );
        let error = of(&["a", "bb"]).unwrap_err();
        assert!(!error.contains("all of them"), "{error}");
        assert!(of(&["", ""]).unwrap_err().contains("empty answer"));
        assert!(of(&[]).unwrap_err().contains("no answer"));
    }
}
