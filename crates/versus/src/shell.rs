//! Which shell runs the commands, and whether one is needed at all.

use std::path::Path;

/// The program that reads the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// None: the commands are split into words and started directly.
    None,
    /// This program and arguments, with `-c` and the command behind them.
    Program(Vec<String>),
}

/// The requested shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// None where no command needs one, `sh` otherwise.
    Auto,
    /// This one.
    This(Shell),
}

impl Asked {
    /// `auto`, `none`, `default`, or the shell's command line.
    ///
    /// # Errors
    /// One sentence where it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::This(Shell::None)),
            "default" => Ok(Self::This(default())),
            other => match shlex::split(other).filter(|words| !words.is_empty()) {
                Some(words) => Ok(Self::This(Shell::Program(words))),
                None => Err(format!(
                    "--shell: '{other}' is not a command line: give none, sh or 'bash -O extglob'"
                )),
            },
        }
    }

    /// Decides for all commands alike, so that what a shell takes is in none of them or in all.
    pub fn decide(&self, commands: &[&str]) -> Shell {
        match self {
            Self::This(shell) => shell.clone(),
            Self::Auto if commands.iter().any(|command| needs_one(command)) => default(),
            Self::Auto => Shell::None,
        }
    }
}

/// `sh`.
pub fn default() -> Shell {
    Shell::Program(vec!["sh".into()])
}

impl Shell {
    /// The words that run a command.
    ///
    /// # Errors
    /// Where it cannot be split into words.
    pub fn words(&self, command: &str) -> Result<Vec<String>, String> {
        match self {
            Shell::None => {
                shlex::split(command).filter(|words| !words.is_empty()).ok_or_else(|| {
                    format!(
                        "'{command}' has a quote that is not closed: close it, or give --shell sh"
                    )
                })
            }
            Shell::Program(words) => {
                Ok(words.iter().cloned().chain(["-c".to_string(), command.to_string()]).collect())
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Shell::None => "none".into(),
            Shell::Program(words) => words.join(" "),
        }
    }
}

// Whatever is more than words, and whatever is a shell's own.
pub(crate) fn needs_one(command: &str) -> bool {
    const OWN: [&str; 26] = [
        "cd", "exit", "ulimit", ":", ".", "source", "export", "set", "eval", "exec", "if", "for",
        "while", "until", "case", "function", "time", "trap", "umask", "unset", "alias", "wait",
        "read", "shift", "builtin", "command",
    ];
    let Some(words) = shlex::split(command) else { return true };
    // What stands in single quotes means nothing to a shell; within double quotes little does.
    let mut quote = None;
    let open = command.chars().any(|c| match (quote, c) {
        (None, '\'' | '"') => {
            quote = Some(c);
            false
        }
        (Some(begun), _) if c == begun => {
            quote = None;
            false
        }
        (Some('\''), _) => false,
        (Some(_), _) => "$`\\!".contains(c),
        (None, _) => "|&;<>()$`\\*?[]#~{}!\n".contains(c),
    });
    let Some(first) = words.first() else { return true };
    open || first.contains('=') || OWN.contains(&first.as_str()) || !is_there(first)
}

fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return true;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .any(|folder: std::path::PathBuf| Path::new(&folder).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_need_no_shell() {
        for plain in [
            "sleep 0.1",
            "/bin/echo 'a b'",
            "/bin/echo \"it's; (a) & b | c\"",
            "/bin/echo 'say \"x\" $y'",
            "sh -c 'exit 3; echo $x'",
            "./built --size=10 --name \"a b\"",
        ] {
            assert_eq!(Asked::Auto.decide(&[plain]), Shell::None, "{plain}");
        }
        for shell in [
            "sleep 0.1; true",
            "a | b",
            "echo $HOME",
            "ls *.rs",
            "A=1 env",
            "cd /",
            "no-such-builtin-3",
            "x > y",
            "echo 'a",
            "echo \"$x\"",
        ] {
            assert_eq!(Asked::Auto.decide(&["sleep 1", shell]), default(), "{shell}");
        }
        assert_eq!(Shell::None.words("a 'b c'").unwrap(), ["a", "b c"]);
        assert_eq!(default().words("a 'b c'").unwrap(), ["sh", "-c", "a 'b c'"]);
        assert_eq!(Asked::parse("bash -O extglob").unwrap().decide(&[]).name(), "bash -O extglob");
        assert!(Asked::parse("").is_err());
    }
}
