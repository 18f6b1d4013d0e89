//! Programs that a test makes and then runs.
//!
//! This process never opens such a file for writing. A child that any thread forks meanwhile would hold it open too until
//! it becomes a program of its own, and until then the kernel does not run the file: "Text file busy". So another process
//! writes it, and has ended when the file is run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program.
pub(crate) fn copy_program(from: &str, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{}", to.display());
}

/// Writes a script that can be run.
pub(crate) fn write_script(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = writer.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(writer.wait().unwrap().success(), "{}", path.display());
}

mod tests {
    use std::os::unix::process::CommandExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_program_that_was_just_made_can_be_run_whatever_other_threads_fork() {
        let folder = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        // A child takes its time before it becomes a program of its own.
                        let mut command = Command::new("true");
                        let dawdle = || {
                            thread::sleep(Duration::from_millis(20));
                            Ok(())
                        };
                        #[expect(unsafe_code, reason = "it has to be slow before exec")]
                        // SAFETY: to sleep is allowed between fork and exec.
                        unsafe {
                            command.pre_exec(dawdle);
                        }
                        assert!(command.status().unwrap().success());
                    }
                });
            }
            let ran: Vec<_> = (0..5)
                .flat_map(|number| {
                    let copy = folder.path().join(format!("copy-{number}"));
                    // Large, so that somebody is sure to fork before it is all written.
                    copy_program(env!("CARGO_BIN_EXE_rooda"), &copy);
                    let script = folder.path().join(format!("script-{number}"));
                    write_script(&script, "#!/bin/sh\nexit 0\n");
                    [copy, script].map(|program| Command::new(program).arg("--version").output())
                })
                .collect();
            is_over.store(true, Ordering::Relaxed);
            for output in ran {
                assert!(output.unwrap().status.success());
            }
        });
    }
}
