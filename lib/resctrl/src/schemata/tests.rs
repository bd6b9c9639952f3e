use proptest::prelude::*;

use super::*;

#[test]
fn what_kernels_print_is_read() {
    let text = "    MB:0=100;1=100\n    L3:0=fffff;1=c0000\nL2CODE:0=ff\n  SMBA:0=2048\n  \
                NEW:0=a,b;7=x y\n";
    let schemata: Schemata = text.parse().unwrap();
    assert_eq!(schemata.amount(&Resource::Smba, 0), Some(2048));
    assert_eq!(schemata.mask(&Resource::L3, 1), Some(Mask(0xc0000)));
    assert_eq!(schemata.get(&Resource::Other("NEW".into()), 7), Some(&Setting::Text("x y".into())));
    assert_eq!(
        schemata.to_string(),
        "L3:0=fffff;1=c0000\nL2CODE:0=ff\nMB:0=100;1=100\nSMBA:0=2048\nNEW:0=a,b;7=x y\n"
    );
    let locking: Schemata = "MB:uninitialized\nL3:uninitialized\n".parse().unwrap();
    assert_eq!(locking.domains(&Resource::L3), [] as [Domain; 0]);
    assert_eq!(locking.to_string(), "L3:uninitialized\nMB:uninitialized\n");
}

#[test]
fn mistakes_are_named() {
    for (text, part) in [
        ("L3", "':' is missing"),
        (":0=f", "no name"),
        ("L3:0", "no '='"),
        ("L3:a=f", "not the number of a cache"),
        ("L3:0=xyz", "not a mask"),
        ("L3:0=", "not a mask"),
        ("MB:0=fast", "not a bandwidth"),
        ("MB:0=-1", "not a bandwidth"),
        ("L3:0=f;0=f", "appears twice"),
        ("L3:0=f\nL3:1=f", "appears twice"),
    ] {
        let error = text.parse::<Schemata>().expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_differs_is_what_must_be_written() {
    let before: Schemata = "L3:0=fffff;1=fffff\nMB:0=100;1=100".parse().unwrap();
    let change: Schemata = "L3:1=f\nMB:0=100".parse().unwrap();
    let after = before.overlaid(&change);
    assert_eq!(after.to_string(), "L3:0=fffff;1=f\nMB:0=100;1=100\n");
    assert_eq!(after.differing_from(&before).to_string(), "L3:1=f\n");
    assert!(before.differing_from(&before).is_empty());
}

fn setting() -> impl Strategy<Value = (Resource, Domain, Setting)> {
    let masks = prop_oneof![Just(Resource::L3), Just(Resource::L2), Just(Resource::L3Code)];
    let amounts = prop_oneof![Just(Resource::Mb), Just(Resource::Smba)];
    prop_oneof![
        (masks, 0u32..5, any::<u64>()).prop_map(|(r, d, m)| (r, d, Setting::Mask(Mask(m)))),
        (amounts, 0u32..5, any::<u64>()).prop_map(|(r, d, a)| (r, d, Setting::Amount(a))),
        ("[A-Z]{4,6}", 0u32..5, "[a-z0-9]{1,4}").prop_map(|(r, d, t)| (
            Resource::of(&format!("X{r}")),
            d,
            Setting::Text(t)
        )),
    ]
}

proptest! {
    #[test]
    fn printing_and_reading_are_inverse(settings in proptest::collection::vec(setting(), 0..12)) {
        let mut schemata = Schemata::new();
        for (resource, domain, setting) in settings {
            schemata.set(resource, domain, setting);
        }
        prop_assert_eq!(schemata.to_string().parse::<Schemata>().unwrap(), schemata);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[ L3MB:=;0-9a-f\n]{0,40}") {
        let _ = text.parse::<Schemata>();
    }
}
