//! A machine that runs, and can have its plug pulled.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command};
use std::thread::JoinHandle;

/// A guest in which a command runs. Dropping it pulls the plug.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: Option<JoinHandle<String>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let mut child =
            command.spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let stderr = child.stderr.take().expect("stderr is piped");
        let errors = Some(std::thread::spawn(move || read(stderr)));
        Ok(Self { child, lines, errors })
    }

    /// The next line that the command prints, without its end; `None` when there are no more. What
    /// was printed when the power was cut may end in the middle of a line, which is left out.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line).ok()?;
        (line.pop() == Some(b'\n')).then(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// Pulls the plug: the machine is gone at once (SIGKILL), whatever it was at. What its
    /// processor had stored into an NVDIMM of [`Testbed::pmem_file`](crate::Testbed::pmem_file) is
    /// in that file; all its other memory is lost. Lines that were on their way can still be read.
    pub fn cut(&mut self) {
        // With SIGTERM testbed/run kills the machine, and removes its own temporary files.
        _ = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        _ = self.child.wait();
    }

    /// Waits for the end, and gives the exit code of `testbed/run` (143 after [`cut`](Self::cut))
    /// and what came on stderr.
    pub fn wait(mut self) -> (i32, String) {
        // A machine whose lines are not read would not end.
        while self.line().is_some() {}
        let code = self.child.wait().ok().and_then(|status| status.code()).unwrap_or(-1);
        let errors = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        (code, errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.cut();
        }
    }
}

fn read(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    _ = stderr.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
