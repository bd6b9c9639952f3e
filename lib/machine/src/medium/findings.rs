//! The doctor's findings about the disk below a folder.

use crate::doctor::{Finding, Severity};

use super::Medium;
use super::flush::Reach;
use super::model::{Device, FileSystem};
use super::text::load_text;

impl Medium {
    /// What a measurement in this folder must reckon with, of its file system and its disks.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.not_flushed().into_iter().collect();
        findings.extend(self.written_to());
        findings.extend(self.without_journal());
        findings.extend(self.disks().into_iter().filter_map(queue));
        findings
    }

    fn not_flushed(&self) -> Option<Finding> {
        let Reach::Stopped(why) = &self.flush else { return None };
        Some(Finding {
            id: "disk-not-flushed".into(),
            severity: Severity::Serious,
            title: "A sync of files here does not reach the disk".into(),
            cause: why.clone(),
            consequence: "commits are as fast as a cache, and a power failure can lose those that \
                          were acknowledged"
                .into(),
            remedy: "remove the cause: mount without that option, or let that device pass flushes \
                     on; leave it only if the cache survives a power failure, or the data need not"
                .into(),
            evidence: format!(
                "{}; 'ringfence explain .' shows all layers",
                place(&self.file_system)
            ),
        })
    }

    fn written_to(&self) -> Option<Finding> {
        let busy: Vec<String> = self
            .load
            .iter()
            .filter(|load| load.is_written_to())
            .map(|load| format!("{}: {}", load.device, load_text(load)))
            .collect();
        (!busy.is_empty()).then(|| Finding {
            id: "disk-written-to".into(),
            severity: Severity::Warning,
            title: "Another program writes to the disk of this folder".into(),
            cause: "another program writes to it, or the kernel writes back earlier data".into(),
            consequence: "commits share the disk and its flushes with work outside the experiment"
                .into(),
            remedy: "stop it, or wait for its end; iotop and pidstat -d show which process writes"
                .into(),
            evidence: busy.join("; "),
        })
    }

    fn without_journal(&self) -> Option<Finding> {
        let mut bare = None;
        self.file_system.file_systems(&mut |one| {
            if one.journal == Some(false) {
                bare = Some(place(one));
            }
        });
        Some(Finding {
            id: "disk-no-journal".into(),
            severity: Severity::Info,
            title: "The file system of this folder has no journal".into(),
            cause: "it was created or set up without one".into(),
            consequence: "fsync commits no journal, so a commit costs less than on most machines; \
                          after a crash the file system must be checked"
                .into(),
            remedy: "compare only with figures of file systems without a journal".into(),
            evidence: bare?,
        })
    }
}

fn queue(disk: &Device) -> Option<Finding> {
    let queue = disk.queue.as_ref()?;
    let scheduler = queue.scheduler.as_deref()?;
    // Documentation/block/ioprio.rst in Linux; of mq-deadline since 5.14.
    let heeds = ["bfq", "mq-deadline"].contains(&scheduler);
    let wbt = queue.wbt_lat_usec.filter(|&usec| usec > 0);
    let held = wbt.map_or("no background write is delayed".into(), |usec| {
        format!("background writes are delayed once reads take more than {} ms", usec as f64 / 1e3)
    });
    Some(Finding {
        id: "disk-queue".into(),
        severity: Severity::Info,
        title: "The queue of this folder's disk decides which writes wait".into(),
        cause: format!(
            "its scheduler, {scheduler}, {} priorities (ionice), and {held} (wbt)",
            if heeds { "heeds" } else { "heeds no" }
        ),
        consequence: "with other settings, a writer stalls commits by a different amount".into(),
        remedy: "compare figures of disks with the same settings".into(),
        evidence: format!(
            "/sys/block/{}/queue: scheduler {scheduler}{}{}",
            disk.name,
            queue.wbt_lat_usec.map_or(String::new(), |usec| format!(", wbt_lat_usec {usec}")),
            queue.nr_requests.map_or(String::new(), |count| format!(", nr_requests {count}")),
        ),
    })
}

fn place(file_system: &FileSystem) -> String {
    match &file_system.point {
        Some(point) => format!("{} at {point}", file_system.name),
        None => file_system.name.clone(),
    }
}
