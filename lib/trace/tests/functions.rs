//! Functions of C by their names, and stores past the caches that none of them fences.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ringfence_trace::census;
use support::skip;

const SOURCE: &str = r#"
#include <immintrin.h>
void elsewhere(void);
void v(char *p) { _mm_stream_si32((int *)p, 1); }
void f(char *p) { _mm_sfence(); _mm_stream_si32((int *)p, 1); _mm_stream_si32((int *)p + 1, 2); }
void i(char *p, int n) {
  for (int k = 0; k < n; k++) _mm_stream_si32((int *)p + k, k);
  _mm_sfence();
}
__attribute__((noinline)) void drain(void) { _mm_sfence(); }
void called(char *p) { _mm_stream_si32((int *)p, 1); drain(); p[0] = 1; }
void by_jump(char *p) { _mm_stream_si32((int *)p, 1); drain(); }
void on_a_path(char *p, int n) { _mm_stream_si32((int *)p, 1); if (n) _mm_sfence(); else p[9] = 1; }
void to_elsewhere(char *p) { _mm_stream_si32((int *)p, 1); elsewhere(); }
void (*pointer)(void);
void by_pointer(char *p) { _mm_stream_si32((int *)p, 1); pointer(); }
"#;

// Of every function, the non-temporal stores that it does not fence.
fn unfenced(folder: &Path, words: &[&str]) -> Option<BTreeMap<String, u64>> {
    let (source, out) = (folder.join("store.c"), folder.join("store"));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("gcc").args(words).arg("-o").arg(&out).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        skip("there is no gcc");
        return None;
    }
    let found = census::of(&[out]).unwrap().files.remove(0);
    assert_eq!(
        found.choices_not_detected.as_deref(),
        words.contains(&"-c").then_some("object files")
    );
    Some(found.functions.into_iter().map(|function| (function.name, function.unfenced)).collect())
}

#[test]
fn stores_past_the_caches_without_a_fence_on_any_path_out_are_found() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [&["-shared", "-fPIC"][..], &["-c"], &["-c", "-ffunction-sections"]] {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let words: Vec<&str> = [level].into_iter().chain(kind.iter().copied()).collect();
            let Some(found) = unfenced(folder.path(), &words) else { return };
            // Names of one letter stay as they are.
            let some: Vec<_> = found
                .iter()
                .filter(|(_, stores)| **stores > 0)
                .map(|(name, stores)| (&**name, *stores))
                .collect();
            assert_eq!(some, [("f", 2), ("v", 1)], "{words:?}: {found:?}");
            assert!(found.contains_key("i") && found.contains_key("by_pointer"), "{found:?}");
        }
    }
}
