//! How a user names running processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is attached to.
///
/// ```
/// use ringfence_system::attach::Target;
/// let target: Target = "unit:nginx".parse().unwrap();
/// assert_eq!(target.to_string(), "unit:nginx.service");
/// assert!("nginx".parse::<Target>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// `pid:N`: a process with all its threads and descendants, those included that it forks later.
    Pid(u32),
    /// `cgroup:PATH`: a control group with all groups below it. The path is as in
    /// `/proc/PID/cgroup`, and then means the groups of that path in all hierarchies; or it begins
    /// with a mount point, and means that one.
    Group(String),
    /// `unit:NAME`: a unit of systemd, of the system or of a user. Without a suffix it is a
    /// service.
    Unit(String),
    /// `container:ID`: a container by its id, or the beginning of it, in hexadecimal digits.
    Container(String),
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a target: {why}", crate::text::printable(text))]
pub struct ParseTargetError {
    text: String,
    why: &'static str,
}

// What ends the name of a unit (systemd.unit(5)) that can have processes.
const SUFFIXES: [&str; 5] = [".service", ".scope", ".slice", ".socket", ".mount"];

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let fail = |why| ParseTargetError { text: text.chars().take(200).collect(), why };
        let (kind, name) = text
            .split_once(':')
            .ok_or_else(|| fail("write pid:N, cgroup:PATH, unit:NAME or container:ID"))?;
        let plain = !name.is_empty() && !name.chars().any(char::is_control);
        match kind {
            "pid" => {
                // Numbers have no sign here, and the kernel's are below 2^22 (proc(5), pid_max).
                let digits = name.bytes().all(|byte| byte.is_ascii_digit());
                let number =
                    name.parse().ok().filter(|number| digits && (1..=1 << 22).contains(number));
                Ok(Target::Pid(
                    number.ok_or_else(|| fail("a process ID is a number from 1 to 4194304"))?,
                ))
            }
            "cgroup" if plain => {
                let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
                if parts.iter().any(|part| matches!(*part, "." | "..")) {
                    return Err(fail("the path of a control group must not contain '.' or '..'"));
                }
                Ok(Target::Group(format!("/{}", parts.join("/"))))
            }
            "unit" if plain && !name.contains('/') => {
                let whole = SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
                Ok(Target::Unit(if whole { name.into() } else { format!("{name}.service") }))
            }
            "container" => {
                let hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !hex || name.is_empty() || name.len() > 64 {
                    return Err(fail(
                        "name a container by its ID or the start of it: up to 64 hexadecimal \
                         digits, as 'docker ps' or 'crictl ps' prints them",
                    ));
                }
                Ok(Target::Container(name.to_ascii_lowercase()))
            }
            "cgroup" | "unit" => Err(fail("write a name after the colon")),
            _ => Err(fail("write pid:N, cgroup:PATH, unit:NAME or container:ID")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Pid(pid) => write!(f, "pid:{pid}"),
            Target::Group(path) => write!(f, "cgroup:{path}"),
            Target::Unit(name) => write!(f, "unit:{name}"),
            Target::Container(id) => write!(f, "container:{id}"),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = ParseTargetError;

    fn try_from(text: String) -> Result<Self, ParseTargetError> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_the_same() {
        for (text, back) in [
            ("pid:7", "pid:7"),
            ("cgroup:a//b/", "cgroup:/a/b"),
            ("cgroup:/", "cgroup:/"),
            ("unit:nginx", "unit:nginx.service"),
            ("unit:a.slice", "unit:a.slice"),
            ("unit:dbus:x.service", "unit:dbus:x.service"),
            ("container:AB12", "container:ab12"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), back);
            assert_eq!(back.parse::<Target>().unwrap(), target);
            let json = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&json).unwrap(), target);
        }
    }

    #[test]
    fn what_is_none_is_told_why() {
        for (text, part) in [
            ("7", "write pid:N"),
            ("pid:0", "from 1 to"),
            ("pid:+7", "from 1 to"),
            ("pid:4194305", "from 1 to"),
            ("cgroup:", "write a name"),
            ("cgroup:/a/../b", "'..'"),
            ("unit:a/b", "write a name"),
            ("unit:a\nb", "write a name"),
            ("container:web", "hexadecimal"),
            ("lxc:a", "write pid:N"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
