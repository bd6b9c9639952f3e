//! Limits as they are given, into what a group may use: checked against what the kernel says there
//! is.

use std::collections::BTreeMap;

use ringfence_experiment::Error;
use ringfence_resctrl::info::{BandwidthInfo, CacheInfo, Unit};
use ringfence_resctrl::{Domain, Info, Mask, Resource, Schemata, State, plan};

/// Cache ways and bandwidth, as a user writes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Ways of the L3: a mask such as `0xf`, how many, such as `4`, or either for each cache, such
    /// as `0=0xf;1=4`.
    pub l3: Option<String>,
    /// The same of the L2.
    pub l2: Option<String>,
    /// Memory bandwidth, in the unit of the mount, for all memory or for each: `50`, `50%`,
    /// `0=2000MB/s`.
    pub mba: Option<String>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        self.l3.is_none() && self.l2.is_none() && self.mba.is_none()
    }
}

/// The requested limits, as resctrl accepts them.
#[derive(Debug, Default)]
pub struct Checked {
    /// The settings; everything else stays unchanged.
    pub schemata: Schemata,
    /// What should be known of it, a sentence each.
    pub notes: Vec<String>,
}

/// Checks limits, of a group that would have `base` without them.
///
/// # Errors
/// Where they cannot be, or not on this machine: in a sentence that begins with `--l3`, `--l2` or
/// `--mba`.
pub fn check(
    asked: &Limits,
    info: &Info,
    state: &State,
    base: &Schemata,
) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    for (level, text) in [(3, &asked.l3), (2, &asked.l2)] {
        if let Some(text) = text {
            ways(level, text, info, state, base, &mut checked).map_err(Error::usage)?;
        }
    }
    if let Some(text) = &asked.mba {
        bandwidth(text, info, base, &mut checked).map_err(Error::usage)?;
    }
    Ok(checked)
}

fn ways(
    level: u32,
    text: &str,
    info: &Info,
    state: &State,
    base: &Schemata,
    checked: &mut Checked,
) -> Result<(), String> {
    let flag = format!("--l{level}");
    let resources = info.of_level(level);
    let Some(first) = resources.first() else {
        let others: Vec<&str> =
            info.caches.keys().chain(info.bandwidths.keys()).map(String::as_str).collect();
        let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        return Err(format!(
            "{flag}: the ways of the L{level} cannot be allocated here, only {others}"
        ));
    };
    for (domain, value) in by_domain(&flag, text, &base.domains(first))? {
        let taken = plan::taken(info, state, &resources, domain);
        let cache = info.cache(first).ok_or_else(|| format!("{flag}: info/{first} is gone"))?;
        let mask = mask(&flag, value, cache, domain, taken)?;
        for resource in &resources {
            checked.schemata.set_mask(resource.clone(), domain, mask);
        }
        let devices = mask.and(cache.io_ways(domain));
        if !devices.is_empty() {
            checked
                .notes
                .push(format!("devices may also use ways 0x{devices} of L{level}:{domain}"));
        }
    }
    Ok(())
}

// `VALUE` for every domain, or `DOMAIN=VALUE;DOMAIN=VALUE`.
fn by_domain<'a>(
    flag: &str,
    text: &'a str,
    there: &[Domain],
) -> Result<BTreeMap<Domain, &'a str>, String> {
    if !text.contains('=') {
        return Ok(there.iter().map(|domain| (*domain, text.trim())).collect());
    }
    let known = || there.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut values = BTreeMap::new();
    for part in text.split([';', ',']) {
        let (domain, value) = part.split_once('=').ok_or_else(|| {
            format!(
                "{flag}: '{}' has no '=': write NUMBER=VALUE for each of {}",
                part.trim(),
                known()
            )
        })?;
        let number = domain.trim().parse().ok().filter(|number| there.contains(number));
        let number = number.ok_or_else(|| {
            format!("{flag}: there is no number '{}' here: {}", domain.trim(), known())
        })?;
        if values.insert(number, value.trim()).is_some() {
            return Err(format!("{flag}: {number} is given twice"));
        }
    }
    Ok(values)
}

fn mask(
    flag: &str,
    text: &str,
    cache: &CacheInfo,
    domain: Domain,
    taken: Mask,
) -> Result<Mask, String> {
    let allowed = || {
        let gaps = if cache.sparse_masks { ", with gaps or without" } else { " without gaps" };
        format!(
            "a mask within 0x{} of {} or more bits{gaps}, such as 0x{}, or a number of ways from \
             {} to {}",
            cache.cbm_mask,
            cache.min_cbm_bits,
            Mask::run(0, cache.min_cbm_bits.max(1)),
            cache.min_cbm_bits.max(1),
            cache.cbm_mask.count()
        )
    };
    let refused = |why: &str| format!("{flag}: {text} {why}; give {}", allowed());
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let Some(hex) = hex else {
        let count: u32 =
            text.parse().map_err(|_| refused("is neither a mask nor a number of ways"))?;
        if count < cache.min_cbm_bits.max(1) || count > cache.cbm_mask.count() {
            return Err(refused("ways are not possible"));
        }
        return run(cache, domain, taken, count).ok_or_else(|| {
            format!(
                "{flag}: {count} adjacent ways of cache {domain} are not free: exclusive groups \
                 and locked regions have 0x{taken} of 0x{}",
                cache.cbm_mask
            )
        });
    };
    let mask: Mask = hex.parse().map_err(|_| refused("is not a mask"))?;
    if !mask.is_within(cache.cbm_mask) {
        return Err(refused("names ways that the cache does not have"));
    }
    if mask.count() < cache.min_cbm_bits.max(1) {
        return Err(refused("has too few ways"));
    }
    if !cache.sparse_masks && !mask.is_contiguous() {
        return Err(refused("has a gap, which this processor does not allow"));
    }
    if mask.overlaps(taken) {
        let both = mask.and(taken);
        return Err(format!(
            "{flag}: {text} overlaps 0x{both} of cache {domain}, which an exclusive group or a \
             locked region has"
        ));
    }
    Ok(mask)
}

// Adjacent cache ways that are not taken exclusively. Prefers those with the fewest ways that
// devices use, then the highest.
fn run(cache: &CacheInfo, domain: Domain, taken: Mask, count: u32) -> Option<Mask> {
    let places = (0..64).map(|first| Mask::run(first, count));
    let free = places.filter(|run| {
        run.count() == count && run.is_within(cache.cbm_mask) && !run.overlaps(taken)
    });
    free.min_by_key(|run| (run.and(cache.io_ways(domain)).count(), std::cmp::Reverse(*run)))
}

fn bandwidth(
    text: &str,
    info: &Info,
    base: &Schemata,
    checked: &mut Checked,
) -> Result<(), String> {
    let Some(known) = info.bandwidth() else {
        let others: Vec<&str> = info.caches.keys().map(String::as_str).collect();
        let others = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
        return Err(format!("--mba: memory bandwidth cannot be allocated here, only {others}"));
    };
    for (domain, value) in by_domain("--mba", text, &base.domains(&Resource::Mb))? {
        let amount = amount(value, known)?;
        let rounded = known.round_up(amount);
        if rounded != amount {
            let unit = known.unit;
            checked.notes.push(format!(
                "{} of MB:{domain} is rounded up to {}, the next step of the hardware",
                unit.say(amount),
                unit.say(rounded)
            ));
        }
        checked.schemata.set_amount(Resource::Mb, domain, amount);
    }
    Ok(())
}

fn amount(text: &str, known: &BandwidthInfo) -> Result<u64, String> {
    let most = match known.unit {
        Unit::Percent => ", 100 % at most",
        Unit::EighthsOfGigabyte => ", such as 2GB/s; 2048 of these steps are no limit",
        Unit::MegabytesPerSecond => "",
    };
    let refused =
        |why: &str| format!("--mba: {text} {why}; give an amount {}{most}", known.choice());
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let suffix = text[digits.len()..].trim();
    let meant = match suffix {
        "" => known.unit,
        "%" => Unit::Percent,
        "MB/s" | "MBps" => Unit::MegabytesPerSecond,
        "GB/s" | "GBps" => {
            return of_gigabytes(digits, known).ok_or_else(|| refused("cannot be set"));
        }
        _ => return Err(refused("is not a bandwidth")),
    };
    let amount: u64 = digits.parse().map_err(|_| refused("is not a bandwidth"))?;
    if meant != known.unit {
        return Err(match known.unit {
            Unit::Percent => refused("is in MB/s, and resctrl is mounted without mba_MBps"),
            Unit::MegabytesPerSecond => {
                refused("is in percent, and resctrl is mounted with mba_MBps")
            }
            Unit::EighthsOfGigabyte => {
                refused("is in another unit than this processor's, eighths of a GB/s")
            }
        });
    }
    if !(known.least()..=known.unit.most()).contains(&amount) {
        return Err(refused("cannot be set"));
    }
    Ok(amount)
}

// GB/s in what the kernel counts them in here, rounded up to a whole number.
fn of_gigabytes(text: &str, known: &BandwidthInfo) -> Option<u64> {
    let in_one = match known.unit {
        Unit::Percent => return None,
        Unit::MegabytesPerSecond => 1000.0,
        Unit::EighthsOfGigabyte => 8.0,
    };
    let amount = (text.parse::<f64>().ok()? * in_one).ceil();
    let fits = amount >= known.least() as f64 && amount <= known.unit.most() as f64;
    fits.then_some(amount as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(unit: Unit) -> Info {
        let cache = CacheInfo {
            num_closids: 16,
            cbm_mask: Mask(0x7ff),
            min_cbm_bits: 2,
            shareable_bits: Mask(0x600),
            sparse_masks: false,
            bit_usage: BTreeMap::new(),
            io_alloc: Default::default(),
        };
        let bandwidth = BandwidthInfo {
            num_closids: 8,
            min_bandwidth: 10,
            bandwidth_gran: 10,
            delay_linear: true,
            throttle: ringfence_resctrl::info::ThrottleMode::Max,
            unit,
        };
        Info {
            caches: [("L3".to_owned(), cache)].into(),
            bandwidths: [("MB".to_owned(), bandwidth)].into(),
            ..Info::default()
        }
    }

    fn checked(l3: &str, mba: &str, unit: Unit, taken: &str) -> Result<String, String> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let limits = Limits { l3: given(l3), l2: None, mba: given(mba) };
        let base: Schemata = "L3:0=7ff;1=7ff\nMB:0=100;1=100".parse().unwrap();
        let mut state = State::default();
        if !taken.is_empty() {
            let group = ringfence_resctrl::GroupState {
                mode: Some(ringfence_resctrl::Mode::Exclusive),
                schemata: taken.parse().unwrap(),
                cpus: Default::default(),
                threads: Vec::new(),
            };
            state.groups.insert(ringfence_resctrl::GroupId::control("a"), group);
        }
        let found =
            check(&limits, &info(unit), &state, &base).map_err(|error| error.to_string())?;
        let schemata = found.schemata.to_string().trim_end().replace('\n', " ");
        Ok(format!("{schemata} {}", found.notes.join("; ")).trim_end().to_owned())
    }

    #[test]
    fn masks_and_numbers_of_ways() {
        for (text, taken, expected) in [
            ("0xf", "", "L3:0=f;1=f"),
            ("0=0xf;1=0xf0", "", "L3:0=f;1=f0"),
            ("1=0xf0", "", "L3:1=f0"),
            ("0=2,1=0x3", "", "L3:0=180;1=3"),
            // Away from what devices use, and from what others have to themselves.
            ("4", "", "L3:0=1e0;1=1e0"),
            ("4", "L3:1=100", "L3:0=1e0;1=f0"),
            (
                "11",
                "",
                "L3:0=7ff;1=7ff devices may also use ways 0x600 of L3:0; devices may also use ways \
                 0x600 of L3:1",
            ),
        ] {
            assert_eq!(checked(text, "", Unit::Percent, taken).as_deref(), Ok(expected), "{text}");
        }
        for (text, taken, part) in [
            (
                "0xfff",
                "",
                "0xfff names ways that the cache does not have; give a mask within 0x7ff of 2 or \
                 more bits without gaps, such as 0x3, or a number of ways from 2 to 11",
            ),
            ("0x1", "", "too few ways"),
            ("0x0", "", "too few ways"),
            ("0x5", "", "has a gap"),
            ("1", "", "1 ways are not possible"),
            ("12", "", "12 ways are not possible"),
            ("f0", "", "neither a mask nor a number of ways"),
            ("0xg", "", "is not a mask"),
            ("2=0xf", "", "there is no number '2' here: 0, 1"),
            ("0=0xf;0=0xf", "", "0 is given twice"),
            ("0=0xf;4", "", "'4' has no '='"),
            ("0x3", "L3:0=1", "overlaps 0x1 of cache 0"),
            ("6", "L3:0=20", "6 adjacent ways of cache 0 are not free"),
        ] {
            let error = checked(text, "", Unit::Percent, taken).unwrap_err();
            assert!(error.starts_with("--l3: ") && error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn bandwidth_is_in_the_unit_of_the_mount() {
        let (percent, megabytes) = (Unit::Percent, Unit::MegabytesPerSecond);
        for (text, unit, expected) in [
            ("50", percent, "MB:0=50;1=50"),
            ("50%", percent, "MB:0=50;1=50"),
            ("0=50;1=100", percent, "MB:0=50;1=100"),
            (
                "0=45",
                percent,
                "MB:0=45 45 % of MB:0 is rounded up to 50 %, the next step of the \
                               hardware",
            ),
            ("2005MB/s", megabytes, "MB:0=2005;1=2005"),
            ("20", Unit::EighthsOfGigabyte, "MB:0=20;1=20"),
            ("2048", Unit::EighthsOfGigabyte, "MB:0=2048;1=2048"),
            ("0=10GB/s;1=2.5GB/s", Unit::EighthsOfGigabyte, "MB:0=80;1=20"),
            ("2GB/s", megabytes, "MB:0=2000;1=2000"),
        ] {
            assert_eq!(checked("", text, unit, "").as_deref(), Ok(expected), "{text}");
        }
        for (text, unit, part) in [
            (
                "5",
                percent,
                "5 cannot be set; give an amount from 10 % in steps of 10 %, 100 % at most",
            ),
            ("101", percent, "cannot be set"),
            ("2000MB/s", percent, "without mba_MBps"),
            ("50%", megabytes, "with mba_MBps; give an amount any number of MB/s"),
            ("half", percent, "is not a bandwidth"),
            ("4096", Unit::EighthsOfGigabyte, "cannot be set"),
            ("2049", Unit::EighthsOfGigabyte, "2048 of these steps are no limit"),
            ("300GB/s", Unit::EighthsOfGigabyte, "cannot be set"),
            ("0.1GB/s", Unit::EighthsOfGigabyte, "such as 2GB/s"),
            ("nanGB/s", Unit::EighthsOfGigabyte, "is not a bandwidth"),
            ("2GB/s", percent, "cannot be set"),
            ("5.5", percent, "is not a bandwidth"),
            ("-5", percent, "is not a bandwidth"),
        ] {
            let error = checked("", text, unit, "").unwrap_err();
            assert!(error.starts_with("--mba: ") && error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_shared_out_is_said() {
        let limits = Limits { l2: Some("1".into()), ..Limits::default() };
        let found = check(&limits, &info(Unit::Percent), &State::default(), &Schemata::new());
        assert_eq!(
            found.unwrap_err().to_string(),
            "--l2: the ways of the L2 cannot be allocated here, only L3, MB"
        );
    }
}
