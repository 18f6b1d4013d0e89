use super::*;
use crate::host::trial::{Agent, aloud, folder_for_all};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

/// Not root: nothing can be given away here.
fn must_be_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        aloud("not root: giving files back was not tried");
    }
    root
}

fn uid(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().uid()
}

fn all(given: u64) -> GivenBack {
    GivenBack {
        given,
        left: 0,
        example: None,
    }
}

#[test]
fn what_root_has_made_is_given_to_the_owner_and_nothing_else_is() {
    if !must_be_root() {
        return;
    }
    let agent = Agent::new();
    let (place, outside) = (folder_for_all(), folder_for_all());
    let root = place.path();
    agent.own(root);
    let tool = root.join("node_modules/.bin/tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::write(outside.path().join("secret"), "").unwrap();
    symlink(outside.path(), root.join("link")).unwrap();
    symlink(outside.path().join("secret"), root.join("link-to-file")).unwrap();
    fs::write(root.join("third"), "").unwrap();
    lchown(root.join("third"), Some(4242), Some(4242)).unwrap();
    let to = (agent.uid(), agent.uid());
    assert_eq!(give_back(root, 0, to).unwrap(), all(5));
    for name in [
        "node_modules",
        "node_modules/.bin",
        "node_modules/.bin/tool",
        "link",
        "link-to-file",
    ] {
        assert_eq!((name, uid(root.join(name))), (name, agent.uid()));
    }
    // It does not become a program that runs as its new owner.
    assert_eq!(fs::metadata(&tool).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(uid(root.join("third")), 4242);
    assert_eq!(uid(outside.path()), 0);
    assert_eq!(uid(outside.path().join("secret")), 0);
    assert_eq!(give_back(root, 0, to).unwrap(), all(0));
}

#[test]
fn a_file_with_a_name_elsewhere_stays_roots() {
    if !must_be_root() {
        return;
    }
    let agent = Agent::new();
    let (place, outside) = (folder_for_all(), folder_for_all());
    let root = place.path();
    agent.own(root);
    // Build tools link their results, with all names in the same tree.
    fs::create_dir(root.join("target")).unwrap();
    fs::write(root.join("target/one"), "").unwrap();
    fs::hard_link(root.join("target/one"), root.join("two")).unwrap();
    let passwd = outside.path().join("passwd");
    fs::write(&passwd, "").unwrap();
    fs::hard_link(&passwd, root.join("planted")).unwrap();
    fs::hard_link(&passwd, root.join("target/planted")).unwrap();
    let given = give_back(root, 0, (agent.uid(), agent.uid())).unwrap();
    assert_eq!((given.given, given.left), (2, 1));
    assert_eq!(given.example.as_deref(), Some(Path::new("planted")));
    assert_eq!(uid(root.join("two")), agent.uid());
    assert_eq!(uid(passwd), 0);
}

#[test]
fn a_device_stays_roots() {
    if !must_be_root() {
        return;
    }
    let agent = Agent::new();
    let place = folder_for_all();
    agent.own(place.path());
    let device = place.path().join("null");
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        FileType::CharacterDevice,
        Mode::RUSR,
        rustix::fs::makedev(1, 3),
    );
    if let Err(error) = made {
        aloud(&format!("no device can be made here ({error}): not tried"));
        return;
    }
    let given = give_back(place.path(), 0, (agent.uid(), agent.uid())).unwrap();
    assert_eq!((given.given, given.left), (0, 1));
    assert_eq!(uid(&device), 0);
}

#[test]
fn another_file_system_is_not_entered() {
    let root = Folder::open(Path::new("/")).unwrap();
    let mut names = Vec::new();
    let folders = entries(&root, &mut |_, name, _| names.push(name.to_owned())).unwrap();
    assert!(names.contains(&OsString::from("etc")));
    assert!(!names.contains(&OsString::from("proc")));
    assert!(!folders.contains(&OsString::from("proc")));
    assert!(root.sub_of_same_system(OsStr::new("proc")).is_err());
}

#[test]
fn no_folder_is_too_deep() {
    if !must_be_root() {
        return;
    }
    let agent = Agent::new();
    let place = folder_for_all();
    let root = Folder::open(place.path()).unwrap();
    let mut folder = root.make(OsStr::new("deep")).unwrap();
    for _ in 0..1200 {
        folder = folder.make(OsStr::new("deeper and deeper")).unwrap();
    }
    folder.new_file().unwrap();
    let given = give_back(place.path(), 0, (agent.uid(), agent.uid())).unwrap();
    assert_eq!(given, all(1202));
    assert_eq!(folder.stat().unwrap().st_uid, agent.uid());
    root.remove(OsStr::new("deep")).unwrap();
}

#[test]
fn the_owner_is_told() {
    let agent = Agent::new();
    let place = folder_for_all();
    agent.own(place.path());
    assert_eq!(owner(place.path()).unwrap().0, agent.uid());
    symlink(place.path(), place.path().join("link")).unwrap();
    let error = owner(&place.path().join("link")).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot tell the owner of"));
    assert!(owner(&place.path().join("missing")).is_err());
}
