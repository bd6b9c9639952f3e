use super::*;

#[test]
fn reasons_hang_below_the_verdict() {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    let reasons =
        texts(&["it is so, and takes more words than fit into a line of forty columns", "it\x1b[31m is"]);
    let out = explain("/x: volatile", &reasons, &texts(&["buy something"]), &Style::plain(48));
    let expected = "\
/x: volatile
  because   it is so, and takes more words than
            fit into a line of forty columns
            it?[31m is
  for more  buy something
";
    assert_eq!(out, expected);
}
