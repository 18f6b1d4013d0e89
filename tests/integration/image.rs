//! What the image brings along besides rooda.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Runs the image's `sudo` as a user.
fn sudo(uid: u32, arguments: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/image/sudo");
    // The script is read by us: another user may not be able to reach it.
    let script = std::fs::read_to_string(script).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sudo"]).args(arguments);
    if rustix::process::geteuid().is_root() {
        command.uid(uid).current_dir("/");
    }
    command.output().unwrap()
}

#[test]
fn a_refused_sudo_is_explained() {
    let output = sudo(1001, &["apt-get", "install", "x"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.starts_with("sudo: the agent has no root here"),
        "{told}"
    );
    assert!(told.contains("`setup`"), "{told}");
}

#[test]
fn for_root_sudo_is_just_the_command() {
    if !rustix::process::geteuid().is_root() {
        rustix::io::write(
            rustix::stdio::stderr(),
            b"SKIPPED: sudo as root needs root\n",
        )
        .unwrap();
        return;
    }
    let output = sudo(0, &["-E", "-n", "A=b", "sh", "-c", "echo $A; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"b\n");
}
