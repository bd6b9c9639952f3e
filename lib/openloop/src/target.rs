//! Services that can be queried.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A service to query, as users write it.
///
/// | text | what is asked |
/// |---|---|
/// | `tcp://HOST:PORT` | a TCP port; `[::1]` where the host is an IPv6 address |
/// | `unix:/PATH` | a stream socket in the file system |
/// | `http://HOST[:PORT][/PATH]` | `GET` of this page by HTTP/1.1, without TLS |
/// | `redis://HOST[:PORT]` | a Redis or what speaks its protocol, with `PING` |
/// | `postgres://[USER@]HOST[:PORT][/DATABASE]` | a PostgreSQL, through `psql`, with `SELECT 1;` |
/// | `exec:COMMAND` | a program that is started, reads lines and answers with lines |
///
/// `PING` and `SELECT 1;` are asked unless another command or statement is given. COMMAND is split
/// into words as a shell does, with no shell in between.
///
/// ```
/// use ringfence_openloop::Target;
/// let target: Target = "http://localhost/index.html".parse().unwrap();
/// let http = Target::Http { host: "localhost".into(), port: 80, path: "/index.html".into() };
/// assert_eq!(target, http);
/// assert_eq!(target.to_string(), "http://localhost:80/index.html");
/// let error = "localhost:80".parse::<Target>().unwrap_err();
/// assert!(error.contains("tcp://HOST:PORT"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP port.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A stream socket in the file system.
    Unix(PathBuf),
    /// A page by HTTP/1.1.
    Http {
        /// A name or an address, without brackets.
        host: String,
        /// The port, 80 unless it is given.
        port: u16,
        /// The path with its query, from `/` on.
        path: String,
    },
    /// A Redis: a command on one line, whose answer ends as its protocol says.
    Redis {
        /// A name or an address, without brackets.
        host: String,
        /// The port, 6379 unless it is given.
        port: u16,
    },
    /// A PostgreSQL, by a connection URI that `psql` understands.
    Postgres(String),
    /// A program that reads lines and answers with lines.
    Exec(String),
}

impl Target {
    /// Whether the bytes of a question must be given.
    pub fn needs_question(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::Unix(_))
    }

    /// The usual request for a service's default port, with the escapes that
    /// [`unescape`](crate::unescape) reads.
    pub fn usual_question(&self) -> Option<&'static str> {
        match self {
            Self::Tcp { port: 6379, .. } => Some(r"PING\r\n"),
            Self::Tcp { port: 11211, .. } => Some(r"version\r\n"),
            _ => None,
        }
    }

    /// The program that is started, and its arguments, if this target is one.
    pub(crate) fn program(&self) -> Option<Result<Vec<String>, String>> {
        match self {
            Self::Exec(command) => Some(Self::words(command)),
            // -q: no messages; -A and -t: values only; -X: no start-up file; -w: never prompt for a
            // password.
            Self::Postgres(uri) => {
                Some(Ok(["psql", "-qAtXw", uri.as_str()].into_iter().map(String::from).collect()))
            }
            _ => None,
        }
    }

    fn words(command: &str) -> Result<Vec<String>, String> {
        match shlex::split(command) {
            None => Err(format!("'exec:{command}' has an unclosed quote")),
            Some(words) if words.is_empty() => {
                Err("'exec:' names no program: write exec:COMMAND".into())
            }
            Some(words) => Ok(words),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("tcp://") {
            let (host, port) = authority(text, rest)?;
            let port =
                port.ok_or_else(|| format!("'{text}' names no port: write tcp://HOST:PORT"))?;
            return Ok(Self::Tcp { host, port });
        }
        if let Some(rest) = text.strip_prefix("http://") {
            let at = rest.find(['/', '?']).unwrap_or(rest.len());
            let (host, port) = authority(text, &rest[..at])?;
            let path = if rest[at..].starts_with('/') {
                rest[at..].into()
            } else {
                format!("/{}", &rest[at..])
            };
            if path.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#') {
                return Err(format!(
                    "the path in '{text}' contains a character that must be written as %HH"
                ));
            }
            return Ok(Self::Http { host, port: port.unwrap_or(80), path });
        }
        if let Some(rest) = text.strip_prefix("redis://") {
            if rest.contains('@') {
                return Err(format!(
                    "'{text}' has a user or a password, which is not supported: use exec: with a \
                     client that logs in"
                ));
            }
            let (host, port) = authority(text, rest.strip_suffix('/').unwrap_or(rest))?;
            return Ok(Self::Redis { host, port: port.unwrap_or(6379) });
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
                Err(format!("'{text}' contains a character that must be written as %HH"))
            } else {
                Ok(Self::Postgres(text.into()))
            };
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.starts_with('/') && !path.contains('\0') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("'{text}' names no absolute path: write unix:/PATH"))
            };
        }
        if let Some(command) = text.strip_prefix("exec:") {
            return Self::words(command).map(|_| Self::Exec(command.trim().into()));
        }
        if text.starts_with("https://") {
            return Err(format!(
                "'{text}' needs TLS, which is not supported: query the service behind it with \
                 http://"
            ));
        }
        Err(format!(
            "'{text}' is not a service: write tcp://HOST:PORT, unix:/PATH, http://HOST:PORT/PATH, \
             redis://HOST, postgres://HOST or exec:COMMAND"
        ))
    }
}

// Host and port of what stands between the slashes.
fn authority(text: &str, part: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match part.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| format!("'{text}' has an unclosed bracket"))?;
            match after.strip_prefix(':') {
                None if !after.is_empty() => {
                    return Err(format!("'{text}' has no port after the bracket"));
                }
                port => (host, port),
            }
        }
        None => match part.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err(format!(
                    "'{text}' has an IPv6 address without brackets: write [ADDRESS]:PORT"
                ));
            }
            Some((host, port)) => (host, Some(port)),
            None => (part, None),
        },
    };
    if host.is_empty()
        || host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@?#".contains(c))
    {
        return Err(format!("'{text}' names no host"));
    }
    let read = |port: &str| {
        let number = port
            .parse()
            .ok()
            .filter(|number| *number > 0 && port.bytes().all(|b| b.is_ascii_digit()));
        number.ok_or_else(|| {
            format!("'{port}' in '{text}' is not a port: write a number from 1 to 65535")
        })
    };
    Ok((host.into(), port.map(read).transpose()?))
}

/// `HOST:PORT`, with brackets around an IPv6 address.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "tcp://{}", host_and_port(host, *port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Http { host, port, path } => {
                write!(f, "http://{}{path}", host_and_port(host, *port))
            }
            Self::Redis { host, port } => write!(f, "redis://{}", host_and_port(host, *port)),
            Self::Postgres(uri) => f.write_str(uri),
            Self::Exec(command) => write!(f, "exec:{command}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "tcp://127.0.0.1:6379",
            "tcp://[::1]:6379",
            "http://localhost:8080/a?b=c",
            "http://[fe80::1%eth0]:80/",
            "unix:/run/redis.sock",
            "exec:psql -qAt 'host=/tmp dbname=a'",
            "redis://[::1]:6379",
            "postgres://me@localhost:5433/shop?sslmode=disable",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("http://h".parse::<Target>().unwrap().to_string(), "http://h:80/");
        assert_eq!("redis://h".parse::<Target>().unwrap().to_string(), "redis://h:6379");
        assert_eq!("redis://h:1/".parse::<Target>().unwrap().to_string(), "redis://h:1");
        assert_eq!("http://h:8080?q".parse::<Target>().unwrap().to_string(), "http://h:8080/?q");
    }

    #[test]
    fn bad_text_is_one_clear_sentence() {
        for (text, part) in [
            ("", "is not a service"),
            ("tcp://localhost", "names no port"),
            ("tcp://localhost:", "is not a port"),
            ("tcp://localhost:+1", "is not a port"),
            ("tcp://localhost:0", "is not a port"),
            ("tcp://localhost:65536", "is not a port"),
            ("tcp://:1", "names no host"),
            ("tcp://::1:1", "without brackets"),
            ("tcp://[::1:1", "unclosed bracket"),
            ("tcp://[::1]x", "no port after the bracket"),
            ("tcp://h:1/x", "is not a port"),
            ("http://user@h/", "names no host"),
            ("http://h/a b", "%HH"),
            ("http://h/a\r\nX: y", "%HH"),
            ("https://h/", "TLS"),
            ("redis://", "names no host"),
            ("redis://:secret@h", "not supported"),
            ("redis://h/3", "names no host"),
            ("postgres://h/a b", "%HH"),
            ("unix:run", "no absolute path"),
            ("exec:", "names no program"),
            ("exec:a 'b", "unclosed quote"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(
                error.contains(part) && !error.contains('\n') || text.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
