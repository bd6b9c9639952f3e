//! How a limit of a running process is kept: in its existing control group.

use ringfence_experiment::Reason;
use ringfence_experiment::shell;
use ringfence_experiment::task::Attached;
use ringfence_limits::limit::Limit;
use ringfence_limits::own_group;

/// What keeps a limit, in words, and the commands that do so; for a systemd unit by its properties,
/// such as `CPUQuota=25%`, if it has some for it.
///
/// # Errors
/// Why it cannot be limited.
pub fn kept(
    attached: &Attached,
    limit: &Limit,
    properties: &[String],
) -> Result<(String, Vec<String>), Reason> {
    let settings = own_group::files(attached, limit)?;
    if let Some(unit) = attached.unit.as_ref().filter(|_| !properties.is_empty()) {
        let words = ["systemctl", "set-property", "--runtime", unit].into_iter();
        let command = shell::line(words.chain(properties.iter().map(String::as_str)));
        return Ok((
            "give the unit these properties; without --runtime it outlives a reboot".into(),
            vec![command],
        ));
    }
    let commands = settings
        .iter()
        .map(|setting| shell::write(&setting.line(&setting.value), &setting.file))
        .collect();
    let values: Vec<String> = settings
        .iter()
        .map(|setting| format!("'{}' to {}", setting.line(&setting.value), setting.file.display()))
        .collect();
    Ok((
        format!(
            "write {} in its control group; the program that created the group may overwrite it",
            values.join(" and ")
        ),
        commands,
    ))
}
