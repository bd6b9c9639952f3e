use super::*;

// With `_` for a space at which no line may end.
fn shown(text: &str) -> String {
    unbroken(text).replace(NO_BREAK, "_")
}

#[test]
fn figures_are_in_one_piece() {
    for (text, expected) in [
        ("slower by +0.5 % [+0.2, +0.8], 95 % of it", "slower by +0.5_% [+0.2,_+0.8], 95_% of it"),
        (
            "12.1x [11.8, 12.4] at 3.41 GB/s, for 1 min 20 s",
            "12.1x [11.8,_12.4] at 3.41_GB/s, for 1_min 20_s",
        ),
        ("0 % [0 %, 84.2 %]", "0_% [0_%,_84.2_%]"),
        ("12 345 678 samples", "12_345_678 samples"),
        ("[1.2e8, 3.4e9] [-0.1, 0]", "[1.2e8,_3.4e9] [-0.1,_0]"),
        ("<td>5 %</td><td>3.2 ns</td>", "<td>5_%</td><td>3.2_ns</td>"),
    ] {
        assert_eq!(shown(text), expected);
    }
}

#[test]
fn words_are_not() {
    for text in [
        "trial 3 said so, 4 sets, 5 more",
        "CPUs 0, 1 and 2000",
        "[lo, hi] and [1, b] or [1.0, 2.3",
        "at 9 1234 and 7 12",
        "",
        " ",
        "%",
    ] {
        assert_eq!(shown(text), text);
    }
}
