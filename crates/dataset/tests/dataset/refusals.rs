//! Folders that are not written to, and folders that are not datasets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ringfence_dataset::{Dataset, DatasetError, Recorder, list, new_dir};
use ringfence_experiment::ended::Ended;

use crate::common::{machine, plan, step};

fn one_sentence(error: &DatasetError) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 500, "{text}");
    text
}

fn create(dir: &Path) -> Result<Recorder, DatasetError> {
    Recorder::create(dir, &plan(), &machine())
}

#[test]
fn nothing_is_written_over() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("full");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("thesis.tex"), "important").unwrap();
    let error = create(&dir).unwrap_err();
    assert!(matches!(error, DatasetError::Usage { .. }));
    assert!(one_sentence(&error).contains("is not empty; name a new one"));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);

    let file = dir.join("thesis.tex");
    assert!(one_sentence(&create(&file).unwrap_err()).contains("this is not a folder"));
    assert!(one_sentence(&create(&file.join("below")).unwrap_err()).contains("os error 20"));
    assert!(one_sentence(&create(Path::new("")).unwrap_err()).contains("empty"));
    symlink(parent.path().join("nowhere"), dir.join("link")).unwrap();
    assert!(one_sentence(&create(&dir.join("link")).unwrap_err()).contains("os error 17"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "important");
}

#[test]
fn a_folder_that_is_removed_meanwhile_is_said_to_be() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut recorder = create(&dir).unwrap();
    recorder.append(&step(0)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let said = one_sentence(&recorder.finish(&Ended::Complete).unwrap_err());
    assert!(
        said.contains("was removed or renamed during the measurement")
            && said.contains("measure again"),
        "{said}"
    );
}

#[test]
fn a_folder_that_cannot_be_made_leaves_nothing() {
    // No file system lets a name be longer than 255 bytes.
    let parent = tempfile::tempdir().unwrap();
    let error = create(&parent.path().join("a/b").join("c".repeat(256))).unwrap_err();
    assert!(one_sentence(&error).contains("os error 36"));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn checking_a_folder_leaves_it_as_it_was() {
    let parent = tempfile::tempdir().unwrap();
    Recorder::check(&parent.path().join("a/b")).unwrap();
    Recorder::check(parent.path()).unwrap();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn an_empty_folder_will_do() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path()).unwrap());
    // The second program finds the first one's dataset.
    assert!(matches!(create(dir.path()), Err(DatasetError::Usage { .. })));
}

#[test]
fn samples_must_be_of_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = create(dir.path()).unwrap();
    recorder.append(&step(0)).unwrap();
    let mut unknown = step(1);
    unknown[2].role = "bystander".into();
    assert!(
        one_sentence(&recorder.append(&unknown).unwrap_err()).contains("'bystander' is not a role")
    );
    let mut unknown = step(1);
    unknown[0].case = 3;
    assert!(
        one_sentence(&recorder.append(&unknown).unwrap_err())
            .contains("sample 0 names case 3 of 3")
    );
    recorder.finish(&Ended::Complete).unwrap();
    assert_eq!(Dataset::open(dir.path()).unwrap().samples, step(0));
}

#[test]
fn what_is_no_dataset_is_called_so() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| one_sentence(&Dataset::open(path).unwrap_err());
    assert!(open(&dir.path().join("missing")).contains("os error 2"));
    assert!(open(dir.path()).contains("not a dataset"));
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(open(&dir.path().join("file")).contains("not a folder"));
    assert!(one_sentence(&list(dir.path()).unwrap_err()).contains("no dataset"));
    assert!(one_sentence(&list(&dir.path().join("missing")).unwrap_err()).contains("os error 2"));
}

#[test]
fn a_survey_lists_its_datasets_in_the_order_of_their_making() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["z-first", "a-second"] {
        drop(create(&dir.path().join(name)).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    fs::create_dir(dir.path().join("other")).unwrap();
    fs::write(dir.path().join("survey.json"), "{}").unwrap();
    let first = dir.path().join("z-first");
    assert_eq!(list(dir.path()).unwrap(), [first.clone(), dir.path().join("a-second")]);
    assert_eq!(list(&first).unwrap(), [first]);
}

#[test]
fn a_new_folder_is_named_after_the_experiment_and_the_time() {
    let name = new_dir(Path::new("/results"), "aa").into_os_string().into_string().unwrap();
    assert_eq!(name.replace(|c: char| c.is_ascii_digit(), "0"), "/results/aa-00000000-000000");
}
