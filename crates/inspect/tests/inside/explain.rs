use super::*;

#[test]
fn reasons_hang_below_the_verdict() {
    let line = |lead: &str, text: &str| (lead.to_string(), text.to_string());
    let verdict = vec![
        line("because", "it is so, and takes more words than fit into a line of forty columns"),
        line("", "it\x1b[31m is"),
        line("for more", "buy something"),
    ];
    let below = vec![line("sync_file_range", "no"), line(" a\x1b[m", "it is")];
    let out = explain(&[("/x: volatile", verdict), ("Below", below)], &Style::plain(48));
    let expected = "\
/x: volatile
  because   it is so, and takes more words than
            fit into a line of forty columns
            it?[31m is
  for more  buy something

Below
  sync_file_range  no
   a?[m            it is
";
    assert_eq!(out, expected);
}
