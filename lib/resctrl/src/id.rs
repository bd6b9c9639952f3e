//! Which group is meant: its path below the mount, as a value.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use ringfence_system::text::printable;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

/// Which group: the default one, one of control, or a monitor group below either. Printed as its
/// path below the mount: ``, `a`, `a/mon_groups/m`. Bytes of a name that are not UTF-8 are written
/// as `\xff`, here and wherever a name is a text; a `\` before an `x` of a name's own is `\x5c`.
#[doc(alias("class_id", "CLOSID", "COS"))]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct GroupId {
    control: Option<String>,
    monitor: Option<String>,
}

impl GroupId {
    /// A group of control by name.
    pub fn control(name: &str) -> Self {
        Self { control: Some(name.to_owned()), monitor: None }
    }

    /// A monitor group below this group.
    pub fn with_monitor(&self, name: &str) -> Self {
        Self { monitor: Some(name.to_owned()), ..self.clone() }
    }

    /// The group of control that a monitor group is below; otherwise the group itself.
    pub fn parent(&self) -> Self {
        Self { monitor: None, ..self.clone() }
    }

    /// Whether it is the default group.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it is a monitor group.
    pub fn is_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Its name: the last part of its path.
    pub fn name(&self) -> &str {
        self.monitor.as_deref().or(self.control.as_deref()).unwrap_or_default()
    }

    /// Its path below the mount.
    pub fn path(&self) -> PathBuf {
        let mut path = PathBuf::from(meant(self.control.as_deref().unwrap_or_default()));
        if let Some(monitor) = &self.monitor {
            path.push("mon_groups");
            path.push(meant(monitor));
        }
        path
    }

    // The same as text.
    pub(crate) fn text(&self) -> String {
        let parts = [
            self.control.as_deref(),
            self.monitor.as_ref().map(|_| "mon_groups"),
            self.monitor.as_deref(),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// Why a name cannot be that of a group, if so.
    fn unfit(name: &str) -> Option<&'static str> {
        match name {
            "" => Some("it is empty"),
            "." | ".." => Some("a folder with that name exists"),
            "info" | "mon_groups" | "mon_data" => Some("the kernel uses that name for a folder"),
            _ if meant(name).len() > 255 => Some("it is longer than 255 bytes"),
            _ if name.contains(['/', '\n', '\0']) => Some("it contains '/', a newline or NUL"),
            _ => None,
        }
    }
}

/// A file's name as text, in which every name is another one.
pub(crate) fn written(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text += &chunk.valid().replace("\\x", "\\x5cx");
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

// The name that a text stands for. Other bytes than these are never written so, lest a text stand
// for a path.
fn meant(text: &str) -> OsString {
    let mut name = Vec::with_capacity(text.len());
    let mut parts = text.split("\\x");
    name.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|byte| *byte >= 0x80 || *byte == b'\\') {
            Some(byte) => {
                name.push(byte);
                name.extend(&part.as_bytes()[2..]);
            }
            None => {
                name.extend(b"\\x");
                name.extend(part.as_bytes());
            }
        }
    }
    OsString::from_vec(name)
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_default() {
            return f.write_str("default group");
        }
        // The name is chosen by the program or user that makes a group.
        f.write_str(&printable(&self.text()))
    }
}

impl FromStr for GroupId {
    type Err = Error;

    /// From a path below the mount; `.` and the empty text are the default group.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
        let id = match *parts {
            ["" | "."] => Self::default(),
            ["mon_groups", monitor] => Self::default().with_monitor(monitor),
            [control] => Self::control(control),
            [control, "mon_groups", monitor] => Self::control(control).with_monitor(monitor),
            _ => {
                return Err(Error::Usage(format!(
                    "'{}' is not a group: write NAME or NAME/mon_groups/NAME",
                    printable(text)
                )));
            }
        };
        id.check()?;
        Ok(id)
    }
}

impl GroupId {
    pub(crate) fn check(&self) -> Result<(), Error> {
        for name in self.control.iter().chain(&self.monitor) {
            if let Some(why) = Self::unfit(name) {
                return Err(Error::Usage(format!(
                    "'{}' cannot be the name of a group: {why}",
                    printable(name)
                )));
            }
        }
        Ok(())
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_text_of_its_own() {
        let names: [(&[u8], &str); 6] = [
            (b"web", "web"),
            (b"g\xff", r"g\xff"),
            (br"g\xff", r"g\x5cxff"),
            (br"\x5cx", r"\x5cx5cx"),
            (b"\xc3\xa4\xc3", r"ä\xc3"),
            (br"a\y", r"a\y"),
        ];
        for (name, text) in names {
            let name = OsStr::from_bytes(name);
            assert_eq!(written(name), text);
            assert_eq!(meant(text), name, "{text}");
            let id = GroupId::control(text).with_monitor(text);
            assert_eq!(id.path(), PathBuf::from(name).join("mon_groups").join(name));
            let json = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<GroupId>(&json).unwrap(), id);
        }
        // What would be another path is meant as it stands.
        for text in [r"\x2f", r"\x00", r"\x2e\x2e", r"\x", r"\xf", r"\xä"] {
            assert_eq!(meant(text), text);
        }
    }
}
