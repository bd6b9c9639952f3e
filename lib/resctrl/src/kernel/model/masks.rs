//! Masks and amounts: `schemata`, overlaps, sizes (`ctrlmondata.c`, `rdtgroup.c`).

use std::collections::BTreeMap;

use libc::{EINVAL, ENOSPC};

use super::hardware::CacheSpec;
use super::machine::Machine;
use super::schemas::{Schema, go_offline, is_there, schemas};
use crate::mode::Mode;
use crate::schemata::{Domain, Mask, Resource};

/// `domain_add_cpu`: a cache whose first CPU comes is all of every group's.
pub(super) fn come_online(machine: &mut Machine) {
    let before = std::mem::replace(&mut machine.schemas, schemas(&machine.hardware));
    go_offline(&mut machine.schemas, &machine.hardware);
    for (schema, before) in machine.schemas.iter().zip(before) {
        let new =
            |domain: &Domain| schema.domains.contains(domain) && !before.domains.contains(domain);
        machine
            .controls
            .retain(|(resource, domain, _), _| *resource != schema.resource || !new(domain));
    }
}

/// `resctrl_peer_type`: what else shares out the same ways.
fn peer(resource: &Resource) -> Option<Resource> {
    Some(match resource {
        Resource::L3Code => Resource::L3Data,
        Resource::L3Data => Resource::L3Code,
        Resource::L2Code => Resource::L2Data,
        Resource::L2Data => Resource::L2Code,
        _ => return None,
    })
}

/// What a write has named so far and is to take effect at its end.
type Staged = BTreeMap<(Resource, Domain), u64>;

impl Machine {
    fn cache_of(&self, resource: &Resource) -> Option<&CacheSpec> {
        self.hardware.cache(resource.cache_level()?)
    }

    /// `resctrl_arch_get_config`.
    fn control(&self, resource: &Resource, domain: Domain, closid: u32) -> u64 {
        let default = match self.cache_of(resource) {
            Some(cache) => cache.all().0,
            None => self.hardware.mb.as_ref().map_or(0, |mb| mb.max),
        };
        self.controls.get(&(resource.clone(), domain, closid)).copied().unwrap_or(default)
    }

    /// The mask of the pseudo-locked region of a cache (`d->plr->cbm`).
    fn locked(&self, level: u32, domain: Domain) -> Option<u64> {
        let regions = self.groups.iter().filter_map(|group| group.region.as_ref()?.at);
        regions.filter(|(at, of, _)| (*at, *of) == (level, domain)).map(|(_, _, mask)| mask).next()
    }

    /// `rdtgroup_cbm_overlaps`.
    fn overlaps(
        &self,
        resource: &Resource,
        domain: Domain,
        mask: u64,
        closid: u32,
        exclusive: bool,
    ) -> bool {
        let shareable = self.cache_of(resource).map_or(0, |cache| cache.shareable.0);
        let of = |resource: &Resource| {
            !exclusive && mask & shareable != 0
                || self.closids_in_use().into_iter().any(|other| {
                    let mode = self.mode_of(other);
                    other != closid
                        && mode != Some(Mode::PseudoLocksetup)
                        && mask & self.control(resource, domain, other) != 0
                        && (!exclusive || mode == Some(Mode::Exclusive))
                })
        };
        of(resource) || peer(resource).is_some_and(|peer| of(&peer))
    }

    /// `rdtgroup_mode_test_exclusive`.
    pub fn test_exclusive(&mut self, closid: u32) -> Result<(), i32> {
        let caches: Vec<Schema> = self
            .schemas
            .iter()
            .filter(|schema| schema.resource.cache_level().is_some())
            .cloned()
            .collect();
        for schema in &caches {
            for &domain in &schema.domains {
                let mask = self.control(&schema.resource, domain, closid);
                if self.overlaps(&schema.resource, domain, mask, closid, false) {
                    return self.refuse(EINVAL, "Schemata overlaps");
                }
            }
        }
        if caches.is_empty() {
            return self.refuse(EINVAL, "Cannot be exclusive without CAT/CDP");
        }
        Ok(())
    }

    /// `rdtgroup_init_alloc`: a new group gets what is not used, and what others share.
    pub fn init_controls(&mut self, closid: u32) -> Result<(), i32> {
        for schema in self.schemas.clone() {
            for &domain in &schema.domains {
                let value = if schema.resource.cache_level().is_some() {
                    self.initial_mask(&schema.resource, domain, closid)?
                } else {
                    self.hardware.mb.as_ref().map_or(0, |mb| mb.max)
                };
                self.controls.insert((schema.resource.clone(), domain, closid), value);
            }
        }
        Ok(())
    }

    /// `__init_one_rdt_domain`.
    fn initial_mask(
        &mut self,
        resource: &Resource,
        domain: Domain,
        closid: u32,
    ) -> Result<u64, i32> {
        let Some(cache) = self.cache_of(resource).cloned() else { return Ok(0) };
        let (mut mask, mut used) = (cache.shareable.0, cache.shareable.0);
        for other in self.closids_in_use() {
            let mode = self.mode_of(other);
            if other == closid || mode == Some(Mode::PseudoLocksetup) {
                continue;
            }
            let peer = peer(resource).map_or(0, |peer| self.control(&peer, domain, other));
            let control = self.control(resource, domain, other) | peer;
            used |= control;
            if mode == Some(Mode::Shareable) {
                mask |= control;
            }
        }
        used |= self.locked(resource.cache_level().unwrap_or_default(), domain).unwrap_or(0);
        mask |= cache.all().0 & !used;
        // `cbm_ensure_valid`: the first run of bits.
        let first = mask.trailing_zeros();
        let run = (mask.checked_shr(first).unwrap_or(0)).trailing_ones();
        let mask = Mask::run(first, run).0;
        if mask.count_ones() < cache.min_bits {
            return self.refuse(ENOSPC, format!("No space on {resource}:{domain}"));
        }
        Ok(mask)
    }

    /// `rdtgroup_schemata_write`.
    pub fn write_schemata(&mut self, place: usize, text: &str) -> Result<(), i32> {
        let Some(text) = text.strip_suffix('\n') else { return Err(EINVAL) };
        self.status.clear();
        if self.groups[place].mode == Mode::PseudoLocked {
            return self.refuse(EINVAL, "Resource group is pseudo-locked");
        }
        let mut staged = Staged::new();
        for line in text.split('\n') {
            let (name, values) = match line.split_once(':') {
                Some((name, values)) => (name.trim(), values),
                None => return self.refuse(EINVAL, "Missing ':'"),
            };
            if values.is_empty() {
                return self.refuse(EINVAL, format!("Missing '{name}' value"));
            }
            let Some(schema) =
                self.schemas.iter().find(|schema| schema.resource.name() == name).cloned()
            else {
                return self
                    .refuse(EINVAL, format!("Unknown or unsupported resource name '{name}'"));
            };
            self.parse_line(place, &schema, values, &mut staged)?;
        }
        let closid = self.groups[place].closid;
        for ((resource, domain), value) in staged {
            self.controls.insert((resource, domain, closid), value);
        }
        if self.groups[place].mode == Mode::PseudoLocksetup {
            self.lock_region(place)?;
        }
        Ok(())
    }

    /// `parse_line`.
    fn parse_line(
        &mut self,
        place: usize,
        schema: &Schema,
        values: &str,
        staged: &mut Staged,
    ) -> Result<(), i32> {
        let locksetup = self.groups[place].mode == Mode::PseudoLocksetup;
        if locksetup && schema.resource == Resource::Mb {
            return self.refuse(EINVAL, "Cannot pseudo-lock MBA resource");
        }
        let mut rest = values;
        while !rest.is_empty() {
            let (part, tail) = rest.split_once(';').unwrap_or((rest, ""));
            rest = tail;
            let parsed =
                part.split_once('=').and_then(|(id, value)| Some((number(id, 10)?, value.trim())));
            let Some((domain, value)) = parsed else {
                return self.refuse(EINVAL, "Missing '=' or non-numeric domain");
            };
            // An unknown domain is refused without a word.
            let domain = schema
                .domains
                .iter()
                .copied()
                .find(|one| u64::from(*one) == domain)
                .ok_or(EINVAL)?;
            let key = (schema.resource.clone(), domain);
            if staged.contains_key(&key) {
                return self.refuse(EINVAL, format!("Duplicate domain {domain}"));
            }
            let Some(level) = schema.resource.cache_level() else {
                self.parse_amount(place, key, value, staged)?;
                continue;
            };
            let mask = self.parse_mask(place, schema, domain, value)?;
            staged.insert(key, mask);
            if locksetup {
                // It stays there although the write may fail yet.
                self.groups[place].region.get_or_insert_default().at = Some((level, domain, mask));
                return Ok(());
            }
        }
        Ok(())
    }

    /// `parse_bw`.
    fn parse_amount(
        &mut self,
        place: usize,
        key: (Resource, Domain),
        value: &str,
        staged: &mut Staged,
    ) -> Result<(), i32> {
        let Some(mb) = self.hardware.mb.clone() else { return Err(EINVAL) };
        let Some(amount) = number(value, 10).filter(|amount| *amount <= u32::MAX.into()) else {
            return self.refuse(EINVAL, format!("Invalid MB value {value}"));
        };
        if mb.software {
            // At once, whatever the rest of the write comes to.
            let amount =
                if mb.rounds_megabytes { amount.next_multiple_of(mb.step) } else { amount };
            self.controls.insert((key.0, key.1, self.groups[place].closid), amount);
            return Ok(());
        }
        if amount < mb.min || amount > mb.max {
            let text = format!("MB value {amount} out of range [{},{}]", mb.min, mb.max);
            return self.refuse(EINVAL, text);
        }
        staged.insert(key, amount.next_multiple_of(mb.step));
        Ok(())
    }

    /// `parse_cbm` and `cbm_validate`.
    fn parse_mask(
        &mut self,
        place: usize,
        schema: &Schema,
        domain: Domain,
        value: &str,
    ) -> Result<u64, i32> {
        let (mode, closid) = (self.groups[place].mode, self.groups[place].closid);
        let level = schema.resource.cache_level().unwrap_or_default();
        let Some(cache) = self.cache_of(&schema.resource).cloned() else { return Err(EINVAL) };
        if mode == Mode::PseudoLocksetup && self.locked_in_hierarchy(level, domain) {
            return self.refuse(EINVAL, "Pseudo-locked region in hierarchy");
        }
        let Some(mask) = number(value, 16) else {
            return self.refuse(EINVAL, format!("Non-hex character in the mask {value}"));
        };
        if mask == 0 && !self.hardware.sparse || mask > cache.all().0 {
            return self.refuse(EINVAL, "Mask out of range");
        }
        if !self.hardware.sparse && !Mask(mask).is_contiguous() {
            return self.refuse(EINVAL, format!("The mask {mask:x} has non-consecutive 1-bits"));
        }
        let run = mask.checked_shr(mask.trailing_zeros()).unwrap_or(0).trailing_ones();
        if run < cache.min_bits {
            return self
                .refuse(EINVAL, format!("Need at least {} bits in the mask", cache.min_bits));
        }
        let sharing = matches!(mode, Mode::Exclusive | Mode::Shareable);
        if sharing && self.locked(level, domain).is_some_and(|locked| locked & mask != 0) {
            return self.refuse(EINVAL, "CBM overlaps with pseudo-locked region");
        }
        if self.overlaps(&schema.resource, domain, mask, closid, true) {
            return self.refuse(EINVAL, "Overlaps with exclusive group");
        }
        if mode != Mode::Shareable && self.overlaps(&schema.resource, domain, mask, closid, false) {
            return self.refuse(EINVAL, "Overlaps with other group");
        }
        Ok(mask)
    }

    /// `rdtgroup_pseudo_locked_in_hierarchy`.
    fn locked_in_hierarchy(&self, level: u32, domain: Domain) -> bool {
        let cpus = self.hardware.cpus_of(level, domain);
        let regions = self.groups.iter().filter_map(|group| group.region.as_ref()?.at);
        regions
            .into_iter()
            .any(|(level, domain, _)| !self.hardware.cpus_of(level, domain).is_disjoint(&cpus))
    }

    /// `rdtgroup_schemata_show`.
    pub fn show_schemata(&self, place: usize) -> String {
        let group = &self.groups[place];
        match (group.mode, group.region.as_ref().and_then(|region| region.at)) {
            (Mode::PseudoLocksetup, _) => self
                .schemas
                .iter()
                .map(|schema| format!("{}:uninitialized\n", schema.resource))
                .collect(),
            (Mode::PseudoLocked, Some((level, domain, mask))) => {
                format!("L{level}:{domain}={mask:x}\n")
            }
            _ => self.lines(|schema, domain| {
                let value = self.control(&schema.resource, domain, group.closid);
                match schema.resource.cache_level() {
                    Some(_) => format!("{value:0width$x}", width = self.data_width()),
                    None => format!("{value:width$}", width = self.data_width()),
                }
            }),
        }
    }

    /// `rdtgroup_size_show`.
    pub fn show_size(&self, place: usize) -> String {
        let group = &self.groups[place];
        if let (Mode::PseudoLocked, Some((level, domain, mask))) =
            (group.mode, group.region.as_ref().and_then(|region| region.at))
        {
            let bytes = self.bytes(level, mask);
            return format!(
                "{:>width$}:{domain}={bytes}\n",
                format!("L{level}"),
                width = self.name_width()
            );
        }
        self.lines(|schema, domain| {
            let value = self.control(&schema.resource, domain, group.closid);
            let size = match schema.resource.cache_level() {
                _ if group.mode == Mode::PseudoLocksetup => 0,
                Some(level) => self.bytes(level, value),
                None => value,
            };
            size.to_string()
        })
    }

    /// `rdtgroup_cbm_to_size`.
    pub fn bytes(&self, level: u32, mask: u64) -> u64 {
        self.hardware.cache(level).map_or(0, |cache| cache.way_bytes * u64::from(mask.count_ones()))
    }

    fn lines(&self, value: impl Fn(&Schema, Domain) -> String) -> String {
        let line = |schema: &Schema| {
            let values: Vec<String> = schema
                .domains
                .iter()
                .map(|domain| format!("{domain}={}", value(schema, *domain)))
                .collect();
            format!(
                "{:>width$}:{}\n",
                schema.resource.name(),
                values.join(";"),
                width = self.name_width()
            )
        };
        self.schemas.iter().map(line).collect()
    }

    fn name_width(&self) -> usize {
        self.schemas.iter().map(|schema| schema.resource.name().len()).max().unwrap_or(0)
    }

    fn data_width(&self) -> usize {
        let masks = [&self.hardware.l3, &self.hardware.l2].into_iter().flatten();
        let masks = masks.map(|cache| cache.ways.div_ceil(4) as usize);
        let amounts = self.hardware.mb.as_ref().map(|mb| if mb.percent { 3 } else { 4 });
        masks.chain(amounts).max().unwrap_or(0)
    }

    /// `rdt_bit_usage_show`.
    pub fn show_bit_usage(&self, resource: &Resource) -> String {
        let Some(cache) = self.cache_of(resource) else { return String::new() };
        let level = resource.cache_level().unwrap_or_default();
        let one = |domain: &Domain| {
            let of = |mode: Mode| -> u64 {
                let groups = self
                    .closids_in_use()
                    .into_iter()
                    .filter(|closid| self.mode_of(*closid) == Some(mode));
                groups.fold(0, |mask, closid| mask | self.control(resource, *domain, closid))
            };
            let (shared, exclusive) = (of(Mode::Shareable), of(Mode::Exclusive));
            let locked = self.locked(level, *domain).unwrap_or(0);
            let letter = |bit: u32| {
                let is = |mask: u64| mask >> bit & 1 == 1;
                match (is(cache.shareable.0), is(shared)) {
                    (true, true) => 'X',
                    (true, false) => 'H',
                    (false, true) => 'S',
                    _ if is(exclusive) => 'E',
                    _ if is(locked) => 'P',
                    _ => '0',
                }
            };
            format!("{domain}={}", (0..cache.ways).rev().map(letter).collect::<String>())
        };
        let there =
            cache.domains.iter().filter(|domain| is_there(&self.hardware, resource, **domain));
        format!("{}\n", there.map(one).collect::<Vec<_>>().join(";"))
    }
}

/// `kstrtoul`: digits of the base, of sixteen with or without a prefix.
pub(super) fn number(text: &str, base: u32) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let bare = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = match bare {
        Some(bare) if base == 16 => bare,
        _ => text,
    };
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, base).ok() }
}
