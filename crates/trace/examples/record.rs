//! Records a command: `record FOLDER FILE LOADS COMMAND...`.

use ringfence_trace::record::{Options, record};
use ringfence_trace::recording::{About, Reader, Writer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().ok_or("a folder")?);
    let file = arguments.next().ok_or("a file")?.into();
    let loads = arguments.next().ok_or("loads")? == "loads";
    let options = Options { command: arguments.collect(), files: vec![file], copies: None, loads };
    let mut writer = Writer::create(&folder, About::default())?;
    let outcome = record(options, &mut writer)?;
    println!("{outcome:?}");
    writer.finish(outcome.ended)?;
    let reader = Reader::open(&folder)?;
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for event in reader.events() {
        let event = event?;
        if std::env::var_os("SHOW").is_some() {
            println!("{event:?} {:?}", reader.site(event.site));
        }
        let name = format!("{:?}", event.action);
        *counts.entry(name.split([' ', '{']).next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    println!("{counts:?}");
    Ok(())
}
