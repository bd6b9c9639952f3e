use super::*;

#[test]
fn json_cannot_leave_its_element() {
    let text = "</script><!-- & \u{2028}\u{2029}\"\\";
    let safe = json(&text).into_string();
    assert!(!safe.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{safe}");
    assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
}
