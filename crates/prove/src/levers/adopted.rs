//! How a limit of what runs already is kept: in the control group that it has.

use ringfence_experiment::shell;
use ringfence_experiment::task::Attached;
use ringfence_isolation::adopted;
use ringfence_isolation::limit::Limit;

/// What keeps a limit, in words, and the commands that do so; for a systemd unit by its property, such as `CPUQuota=25%`.
///
/// # Errors
/// Why it cannot be limited, to follow "because".
pub fn kept(attached: &Attached, limit: &Limit, property: &str) -> Result<(String, Vec<String>), String> {
    let (folder, version) = adopted::own_group(attached, limit)?;
    if let Some(unit) = &attached.unit {
        let command = shell::line(["systemctl", "set-property", "--runtime", unit, property]);
        return Ok((
            "give the unit that property; without --runtime it outlives a reboot".into(),
            vec![command],
        ));
    }
    let command = |(file, text): (&str, String)| {
        let path = folder.join(file).display().to_string();
        format!("echo {} > {}", shell::quote(&text), shell::quote(&path))
    };
    let commands = limit.settings(version).into_iter().map(command).collect();
    Ok((
        "write it to its control group; whoever made the group may write something else there".into(),
        commands,
    ))
}
