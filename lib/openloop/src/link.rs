//! One connection to a service, or one program: opened, read and written without waiting.

use std::io::IoSliceMut;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
};

use crate::error::ProbeError;
use crate::target::Target;

/// Where a connection leads.
#[derive(Debug, Clone)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// A program and its arguments.
    Program(Vec<String>),
}

impl Address {
    /// All addresses of a target, in the resolver's order.
    pub fn all(target: &Target) -> Result<Vec<Self>, ProbeError> {
        match target {
            Target::Tcp { host, port }
            | Target::Http { host, port, .. }
            | Target::Redis { host, port } => {
                let resolve = |source| ProbeError::Resolve { host: host.clone(), source };
                let all = (host.as_str(), *port).to_socket_addrs().map_err(resolve)?;
                Ok(all.map(Self::Tcp).collect())
            }
            Target::Unix(path) => Ok(vec![Self::Unix(path.clone())]),
            Target::Exec(_) | Target::Postgres(_) => {
                let words = target.program().into_iter().map(|words| words.map(Self::Program));
                words.collect::<Result<_, _>>().map_err(ProbeError::Question)
            }
        }
    }

    /// Begins to connect. The link can be used as soon as it is writable.
    pub fn open(&self) -> Result<Link, Errno> {
        match self {
            Self::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = stream(family)?;
                rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
                // Where the kernel gives no time of arrival, it is read here.
                let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
                begun(connect(&socket, address))?;
                Ok(Link::Socket(socket))
            }
            Self::Unix(path) => {
                let socket = stream(AddressFamily::UNIX)?;
                begun(connect(&socket, &SocketAddrUnix::new(path)?))?;
                Ok(Link::Socket(socket))
            }
            Self::Program(words) => program(words),
        }
    }
}

fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

fn begun(result: Result<(), Errno>) -> Result<(), Errno> {
    result.or_else(|errno| if errno == Errno::INPROGRESS { Ok(()) } else { Err(errno) })
}

fn program(words: &[String]) -> Result<Link, Errno> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let unknown = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut child = command.spawn().map_err(unknown)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Errno::IO);
    };
    let link = Link::Program { child, input, output };
    // Only this side of the pipes: the program's own reads and writes wait as ever.
    fcntl_setfl(link.writer(), OFlags::NONBLOCK)?;
    fcntl_setfl(link.reader(), OFlags::NONBLOCK)?;
    Ok(link)
}

/// One connection.
#[derive(Debug)]
pub enum Link {
    Socket(OwnedFd),
    /// A program, which is ended when this is dropped.
    Program {
        child: Child,
        input: ChildStdin,
        output: ChildStdout,
    },
}

impl Link {
    pub fn reader(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Program { output, .. } => output.as_fd(),
        }
    }

    pub fn writer(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) => socket.as_fd(),
            Self::Program { input, .. } => input.as_fd(),
        }
    }

    pub fn is_socket(&self) -> bool {
        matches!(self, Self::Socket(_))
    }

    /// What became of connecting, once the link is writable.
    pub fn connected(&self) -> Result<(), Errno> {
        match self {
            Self::Socket(socket) => rustix::net::sockopt::socket_error(socket)?,
            Self::Program { .. } => Ok(()),
        }
    }

    /// Writes what fits.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => rustix::net::send(socket, bytes, SendFlags::NOSIGNAL),
            Self::Program { input, .. } => rustix::io::write(input, bytes),
        }
    }

    /// Reads the available bytes, with the arrival time of their last segment if the kernel knows
    /// it: ns on `CLOCK_REALTIME`.
    pub fn read(&self, buffer: &mut [u8]) -> Result<(usize, Option<i64>), Errno> {
        match self {
            Self::Socket(socket) => receive(socket, buffer),
            Self::Program { output, .. } => {
                rustix::io::read(output, buffer).map(|length| (length, None))
            }
        }
    }
}

// TCP gives the time of the last segment that was read: Linux, net/ipv4/tcp.c, tcp_recv_timestamp.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Option<i64>), Errno> {
    let mut control = [0; 64];
    let mut parts = [IoSliceMut::new(buffer)];
    let received =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT)
            .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
    let times = received.cmsgs().into_iter().flatten().filter_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(time) => {
            Some(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
        }
        _ => None,
    });
    Ok((received.bytes, times.last()))
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Self::Program { child, .. } = self {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
