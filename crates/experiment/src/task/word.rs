//! Choices that a file names by one word.

/// Serialises a choice as its word, and reads it back from there. The type has `ALL` and a constant
/// function `name`, so that both stand in one place.
macro_rules! serde_as_word {
    ($($type:ty),+) => {$(
        impl $type {
            /// The words, in the order of `ALL`.
            pub const NAMES: [&'static str; Self::ALL.len()] = {
                let mut names = [""; Self::ALL.len()];
                let mut index = 0;
                while index < names.len() {
                    names[index] = Self::ALL[index].name();
                    index += 1;
                }
                names
            };
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::NAMES })
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let found = Self::ALL.into_iter().find(|known| known.name() == text);
                found.ok_or_else(|| serde::de::Error::unknown_variant(&text, &Self::NAMES))
            }
        }
    )+};
}
pub(crate) use serde_as_word;
