//! What the jail holds back and what it lets through, tried with real processes. All of it needs root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::cell::{Cell, GID, PATH, UID, open_folder};
use super::*;

#[test]
fn the_agent_is_nobody_else() {
    let Some(cell) = Cell::new() else { return };
    assert_eq!(cell.says("id -u; id -g; id -G"), "1001\n60999\n60999");
    let status = cell.says("cat /proc/self/status");
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), ["1001"; 4]);
    assert_eq!(field("Gid:"), ["60999"; 4]);
    assert_eq!(field("Groups:"), [""; 0]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    assert_eq!(field("Umask:"), ["0022"]);
}

#[test]
fn what_rooda_has_is_not_handed_down() {
    let Some(cell) = Cell::new() else { return };
    // A thread can have all this for itself, so the other tests notice nothing.
    let told = std::thread::spawn(move || {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.inheritable = sets.permitted;
        set_capabilities(None, sets).unwrap();
        unshare_umask();
        umask(Mode::empty());
        set_thread_groups(&[Gid::from_raw(4), Gid::from_raw(999)]).unwrap();
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(!own.contains("CapInh:\t0000000000000000"), "{own}");
        assert!(own.contains("Groups:\t4 999"), "{own}");
        cell.says("grep -E 'Umask|CapInh|Groups' /proc/self/status")
    });
    let told = told.join().unwrap();
    assert_eq!(told, "Umask:\t0022\nGroups:\t \nCapInh:\t0000000000000000");
}

#[expect(unsafe_code, reason = "the tests share one process")]
fn unshare_umask() {
    // SAFETY: descriptors stay shared.
    unsafe { unshare_unsafe(UnshareFlags::FS) }.unwrap();
}

#[test]
fn the_environment_is_exactly_the_given_one() {
    let Some(cell) = Cell::new() else { return };
    let home = cell.root.path().join("home");
    let expected = format!(
        "HOME={}\nPATH={PATH}\nSECRET={}",
        home.display(),
        cell.secret.path().display()
    );
    // Not a shell's, which adds some of its own.
    let mut command = Command::new("/usr/bin/env");
    cell.jail.confine(&mut command);
    let output = command.output().unwrap();
    let mut told: Vec<&str> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect();
    told.sort_unstable();
    assert_eq!(told.join("\n"), expected);
    let other = cell.jail.with_environment(BTreeMap::new());
    let mut command = Command::new("/usr/bin/env");
    other.confine(&mut command);
    assert_eq!(command.output().unwrap().stdout, b"");
}

#[test]
fn descriptors_are_not_inherited() {
    let Some(cell) = Cell::new() else { return };
    let open = fs::File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    // 3 is the folder that `ls` itself looks at.
    assert_eq!(cell.says("ls /proc/self/fd"), "0\n1\n2\n3");
}

#[test]
fn it_works_where_it_was_put_in_a_session_of_its_own() {
    let Some(cell) = Cell::new() else { return };
    assert_eq!(
        cell.says("pwd"),
        cell.root.path().join("work").to_str().unwrap()
    );
    // The fourth and fifth value after the name: group and session.
    let ids = cell.says("echo $$; cut -d' ' -f 5,6 /proc/$$/stat");
    let ids: Vec<&str> = ids.split_whitespace().collect();
    assert_eq!(ids, [ids[0]; 3]);
    assert_eq!(
        cell.says("ulimit -c; cat /proc/self/oom_score_adj"),
        "0\n500"
    );
}

#[test]
fn a_folder_that_the_agent_cannot_enter_is_not_entered_for_it() {
    let Some(cell) = Cell::with(|plan| plan.directory = "/root".into()) else {
        return;
    };
    let mut command = Command::new("/bin/true");
    cell.jail.confine(&mut command);
    let error = command.output().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn the_streams_can_be_opened_by_name() {
    let Some(cell) = Cell::new() else { return };
    let output = cell.run("echo told > /dev/stderr; echo said > /dev/stdout; cat /dev/stdin");
    assert_eq!(output.stderr, b"told\n");
    assert_eq!(output.stdout, b"said\n");
}

#[test]
fn what_is_no_pipe_keeps_its_owner() {
    let Some(cell) = Cell::new() else { return };
    let path = cell.root.path().join("file");
    let file = fs::File::create(&path).unwrap();
    let mut command = Command::new("/bin/true");
    command.stdin(file.try_clone().unwrap());
    command.stdout(file.try_clone().unwrap()).stderr(file);
    cell.jail.confine(&mut command);
    assert!(command.status().unwrap().success());
    assert_eq!(fs::metadata(path).unwrap().uid(), 0);
}

#[test]
fn it_dies_with_the_thread_that_started_it() {
    let Some(cell) = Cell::new() else { return };
    let mut child = std::thread::spawn(move || {
        let mut command = Command::new("/bin/sleep");
        command.arg("100");
        cell.jail.confine(&mut command);
        command.spawn().unwrap()
    })
    .join()
    .unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn it_cannot_become_root_again() {
    let Some(cell) = Cell::new() else { return };
    let copy = cell.root.path().join("id");
    // Not by this process: a child of another thread would hold it open, and then it cannot be run.
    let mut copying = Command::new("cp");
    copying.arg("/usr/bin/id").arg(&copy);
    assert!(copying.status().unwrap().success());
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(cell.says(&format!("{} -u", copy.display())), "1001");
}

#[test]
fn files_outside_cannot_be_written_to() {
    let Some(cell) = Cell::new() else { return };
    let folder = open_folder("/srv");
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    chown(folder.path(), Some(UID), Some(GID)).unwrap();
    chown(&file, Some(UID), Some(GID)).unwrap();
    let (folder, name) = (folder.path().display(), file.display());
    assert_eq!(cell.says(&format!("cat {name}")), "kept");
    for script in [
        format!("echo > {name}"),
        format!("echo >> {name}"),
        format!("truncate -s 0 {name}"),
        format!("rm -f {name}"),
        format!("touch {folder}/new"),
        format!("mkdir {folder}/new"),
        format!("ln -s {name} {folder}/new"),
        format!("mv {name} {folder}/new"),
        format!("mv -T {name} ./taken"),
        format!("ln {name} ./linked && echo > ./linked"),
        format!("echo planted > planted; mv -T planted {name}"),
    ] {
        cell.refuses(&script);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "kept");
}

#[test]
fn what_is_forbidden_cannot_be_read() {
    let Some(cell) = Cell::new() else { return };
    assert_eq!(cell.status.left_out, [PathBuf::from("/var")]);
    for script in [
        "cat $SECRET/token",
        "echo > $SECRET/token",
        "touch $SECRET/new",
        "cat < /proc/self/root/$SECRET/token",
        "ln -s $SECRET link; cat link/token",
        "cd $SECRET; cat token",
        "cat /var/lib/dpkg/status",
    ] {
        cell.refuses(script);
    }
    // Whoever may list `/` may list all below it, as far as the user goes.
    assert_eq!(cell.says("ls $SECRET"), "token");
}

#[test]
fn without_rules_the_user_alone_decides() {
    let Some(cell) = Cell::with(|plan| plan.landlock = false) else {
        return;
    };
    assert_eq!(cell.status, LandlockStatus::off());
    assert!(!cell.status.is_in_force());
    assert_eq!(cell.says("cat $SECRET/token"), "secret");
    assert_eq!(cell.says("id -u"), "1001");
}

#[test]
fn files_move_between_all_writable_places() {
    let Some(cell) = Cell::new() else { return };
    // Where `mv` cannot rename it copies, and then the file is another one.
    let script = r#"
        set -e
        moved() {
            before=$(stat -c %i $1)
            mv $1 $2
            [ "$(stat -c %i $2)" = "$before" ] || { echo "$1 to $2 was a copy" >&2; exit 1; }
        }
        for place in $HOME /tmp /var/tmp /dev/shm; do
            there=$(mktemp -d $place/rooda-XXXXXX)
            if [ "$(stat -c %d .)" = "$(stat -c %d $there)" ]; then
                echo text > file
                moved file $there/file
                moved $there/file file
            fi
            rm -r $there
        done
        mkdir a b; moved file a/file; moved a/file b/file; ln b/file a/file; moved b c
        mkfifo fifo; ln -s a link; rm -r a c fifo link
    "#;
    cell.says(script);
}

#[test]
fn devices_terminals_and_programs_work() {
    let Some(cell) = Cell::new() else { return };
    cell.says("echo > /dev/null; head -c 9 /dev/urandom > random; dd if=/dev/zero of=zero count=1 2> /dev/null");
    if fs::exists("/usr/bin/script").unwrap() {
        let told = cell.says("script -qec 'tty; stty size' /dev/null < /dev/null");
        assert!(told.contains("/dev/pts/"), "{told}");
    }
    for (program, script) in [
        (
            "/usr/bin/python3",
            "/usr/bin/python3 -c 'import os, tempfile; tempfile.mkdtemp(); print(6 * 7)'",
        ),
        ("/usr/bin/node", "/usr/bin/node -e 'console.log(6 * 7)'"),
    ] {
        if fs::exists(program).unwrap() {
            assert_eq!(cell.says(script), "42");
        }
    }
}

#[test]
fn git_works_in_the_workspace() {
    let Some(cell) = Cell::new() else { return };
    let script = "git init -q . && git config user.name A && git config user.email a@example.invalid &&
        echo text > file && git add . && git commit -q -m 'A file' && git gc -q && git clone -q . $HOME/clone &&
        git -C $HOME/clone log --format=%s";
    assert_eq!(cell.says(script), "A file");
}

#[test]
fn root_stays_root_if_that_is_asked_for() {
    let Some(cell) = Cell::with(|plan| (plan.uid, plan.gid) = (0, 0)) else {
        return;
    };
    assert_eq!(
        cell.says("id -u; id -G; chown 1001 .; stat -c %u ."),
        "0\n0\n1001"
    );
    cell.refuses("cat $SECRET/token");
    cell.refuses("touch /srv/new");
}

#[test]
fn processes_outside_get_no_signals() {
    let Some(cell) = Cell::new() else { return };
    if !cell.status.fully {
        return;
    }
    let mut command = Command::new("/bin/sleep");
    command.arg("100");
    // The same user, so that only the rules are left to say no.
    let mut outside = command.uid(UID).spawn().unwrap();
    let pid = outside.id();
    cell.refuses(&format!("kill -0 {pid}"));
    cell.refuses(&format!("cat /proc/{pid}/environ"));
    cell.says("sleep 100 & kill $!");
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[test]
fn a_group_of_its_own_is_free() {
    let groups = "root:x:0:\nodd\nx:x:60000:\nz:x:60003:a,b\n";
    assert_eq!(free_gid(groups, &[60001]), 60_002);
    assert_eq!(free_gid("", &[]), 60_000);
    assert!(private_gid(&[]) >= 60_000);
}
