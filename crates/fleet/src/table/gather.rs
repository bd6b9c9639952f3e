//! The whole table: each host's rows in a folder of its name, and a row for each task.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ringfence_dataset::table::{self, Columns, Values};
use ringfence_experiment::Error;
use ringfence_system::whole;
use rustix::fs::{CWD, RenameFlags};

use super::contents::{self, Gathered, LeftOut, TABLE, words};
use super::copy::file;
use super::rows;
use crate::attempt;
use crate::error;

use crate::facts::Facts;
use crate::state::State;
use crate::status::Task;

/// Makes the table of what tasks have come to; an older one stays until the new one is whole.
///
/// # Errors
/// What could not be read or written; the older table is then as it was.
pub fn gather(dir: &Path, tasks: &[Task]) -> Result<Gathered, Error> {
    let made = dir.join(format!(".{TABLE}-{}.new", std::process::id()));
    let _ = fs::remove_dir_all(&made);
    let gathered = fill(dir, &made, tasks).and_then(|gathered| {
        replace(&made, &dir.join(TABLE))?;
        Ok(gathered)
    });
    // Where all went well this is the older table.
    let _ = fs::remove_dir_all(&made);
    let gathered = gathered?;
    contents::put(dir, &gathered)?;
    Ok(gathered)
}

fn fill(dir: &Path, made: &Path, tasks: &[Task]) -> Result<Gathered, Error> {
    let mut gathered = Gathered { states: words(tasks), ..Gathered::default() };
    let mut hosts = std::collections::BTreeSet::new();
    fs::create_dir_all(made).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                "; gather it first where it can be written"
            }
            _ => "",
        };
        Error::failed(format!("{}{help}", error::io("make the table in", made)(error)))
    })?;
    for task in tasks {
        let Some(number) = task.counting else { continue };
        let attempt = attempt::of(dir, task.number, number);
        match add(&attempt, made, task.number, number) {
            Ok(host) => {
                gathered.tasks.push((task.number, number));
                hosts.insert(host);
            }
            Err(Added::Unfit(why)) => gathered.left_out.push(LeftOut::new(task, &attempt, &why)),
            Err(Added::Failed(error)) => return Err(error),
        }
    }
    gathered.hosts = hosts.len();
    let path = made.join("tasks.parquet");
    table::write(&path, &of_tasks(tasks), None).map_err(error::table("write", &path))?;
    Ok(gathered)
}

// Rows that cannot be had cost no other host its own; a table that cannot be written ends it.
enum Added {
    Unfit(Error),
    Failed(Error),
}

fn add(attempt: &Path, made: &Path, task: u32, number: u32) -> Result<String, Added> {
    let facts = Facts::read(attempt).map_err(Added::Unfit)?;
    // What is damaged, or an earlier version wrote, is made again from the datasets.
    let again = |_| rows::write(attempt, &facts, task, number).and_then(|()| rows::tables(attempt));
    let tables = rows::tables(attempt).or_else(again).map_err(Added::Unfit)?;
    let host = partition(&facts.node);
    for table in tables {
        let folder = made.join(&table).join(format!("host={host}"));
        make(&folder).map_err(Added::Failed)?;
        let to = folder.join(format!("part-{task:04}.parquet"));
        place(&rows::folder(attempt).join(file(&table)), &to).map_err(Added::Failed)?;
    }
    Ok(host)
}

fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(error::io("make", folder))
}

// The same bytes under another name; a copy where links are not to be had.
fn place(from: &Path, to: &Path) -> Result<(), Error> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error::io("link", to)(error)),
        Err(_) => fs::copy(from, to).map(drop).map_err(error::io("write", to)),
    }
}

// A name as other tools take it for text: such a folder's name is percent-encoded.
fn partition(node: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    node.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

// Afterwards the table is the new one, and the older one is where that was.
fn replace(made: &Path, table: &Path) -> Result<(), Error> {
    let failed = || error::io("rename the new table to", table);
    if !table.exists() {
        fs::rename(made, table).map_err(failed())?;
    } else if rustix::fs::renameat_with(CWD, made, CWD, table, RenameFlags::EXCHANGE).is_err() {
        // File systems that cannot exchange two folders are without a table for a moment.
        let mut older = made.as_os_str().to_owned();
        older.push(".older");
        let older = PathBuf::from(older);
        fs::rename(table, &older).map_err(failed())?;
        fs::rename(made, table).map_err(failed())?;
        let _ = fs::remove_dir_all(&older);
    }
    let folder = whole::folder_of(table);
    whole::sync_folder(folder).map_err(error::io("sync the folder", folder))
}

fn of_tasks(tasks: &[Task]) -> Columns {
    let text = |of: &dyn Fn(&Task) -> Option<String>| Values::Text(tasks.iter().map(of).collect());
    let count = |of: &dyn Fn(&Task) -> Option<u32>| Values::Count(tasks.iter().map(of).collect());
    vec![
        ("task", count(&|task| Some(task.number))),
        ("state", text(&|task| Some(task.state.word().into()))),
        ("reason", text(&|task| task.reason.clone())),
        ("node", text(&|task| task.node.clone())),
        ("started", text(&|task| task.started.clone())),
        ("ended", text(&|task| task.ended.clone())),
        ("attempts", count(&|task| u32::try_from(task.attempts.len()).ok())),
        ("attempt", count(&|task| task.counting)),
        ("done", Values::Flag(tasks.iter().map(|task| Some(task.state == State::Done)).collect())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_are_names_of_folders() {
        assert_eq!(partition("node-01.example"), "node-01.example");
        assert_eq!(partition("a/b c%"), "a%2Fb%20c%25");
    }
}
