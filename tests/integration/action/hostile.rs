//! What an agent in the container cannot do, whatever it tries.

use std::time::Duration;

use super::{PROMISE, job, with_agent};
use crate::runner::{Checkout, DOCKER_GID, Job, StepResult, TOKEN};

/// Runs a hostile script and gives what it wrote into the file `loot`.
fn loot(job: Job, script: &str) -> (Job, String) {
    let job = with_agent(
        job,
        &format!("cat >/dev/null; {{ {script}\n}} >loot 2>&1; {PROMISE}"),
    );
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert!(outcome.errors.is_empty(), "{outcome}");
    let loot = job.read("loot");
    (job, loot)
}

fn hostile(script: &str) -> Option<(Job, String)> {
    let job = Job::new()?.input("prompt", "x");
    Some(loot(job, script))
}

#[test]
fn it_reads_no_token_from_any_environment() {
    let script = "env; cat /proc/self/environ; cat /proc/1/environ; cat /proc/*/environ; tr '\\0' '\\n' </proc/1/environ; \
                  cat /proc/1/cmdline; cat /proc/1/mem | head -c 10; ls -l /proc/1/fd /proc/1/cwd /proc/1/root; true";
    let Some((_, loot)) = hostile(script) else {
        return;
    };
    for secret in [
        TOKEN,
        "INPUT_",
        "ACTIONS_",
        "runtime-token",
        "GITHUB_OUTPUT",
        "GITHUB_ENV",
        "file_commands",
    ] {
        assert!(!loot.contains(secret), "{secret}: {loot}");
    }
    assert!(loot.contains("GITHUB_REPOSITORY="), "{loot}");
    assert!(
        loot.contains("/proc/1/environ: Permission denied"),
        "{loot}"
    );
}

#[test]
fn it_writes_no_command_file() {
    let script = "for f in /github/file_commands/* /github/runner_temp/_runner_file_commands/*; do \
                    echo status=success >>$f; true >$f; rm -f $f; mv $f $f.x; ln -sf /etc/passwd $f; \
                  done; echo x >/github/file_commands/new; ls /github/file_commands/ && cat /github/file_commands/*; \
                  rm -rf /github/file_commands /github/runner_temp/_runner_file_commands; true";
    let Some((job, loot)) = hostile(script) else {
        return;
    };
    assert!(!loot.contains("status<<"), "{loot}");
    assert!(!job.temp().join("_runner_file_commands/new").exists());
}

#[test]
fn it_does_not_reach_docker_though_the_workspace_has_dockers_group() {
    let script = "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); \
                  print connect(S, sockaddr_un(\"/var/run/docker.sock\")) ? \"CONNECTED\\n\" : \"refused: $!\\n\"'; \
                  id -G; stat -c %g /github/workspace";
    let Some((job, loot)) = hostile(script) else {
        return;
    };
    assert!(loot.contains("refused: Permission denied"), "{loot}");
    assert!(
        loot.contains(&format!("\n{DOCKER_GID}\n")),
        "the workspace's group is docker's: {loot}"
    );
    assert_eq!(job.docker_connections(), 0);
}

#[test]
fn it_does_not_find_the_token_that_checkout_left() {
    for checkout in [Checkout::V5, Checkout::V6] {
        let Some(job) = Job::new() else { return };
        let job = job.input("prompt", "x").checkout(checkout);
        let config = std::fs::read(job.workspace().join(".git/config")).unwrap();
        let script = "git config --list --show-origin; cat .git/config; grep -r AUTHORIZATION / --include='*.config' -s; \
                      cat /github/runner_temp/*; ls /github/runner_temp; git status >/dev/null || echo BROKEN";
        let (job, loot) = loot(job, script);
        assert!(
            !loot.contains("AUTHORIZATION") && !loot.contains(TOKEN),
            "{checkout:?}: {loot}"
        );
        assert!(!loot.contains("BROKEN"), "{checkout:?}: {loot}");
        // A later step of the job has it again.
        let after = std::fs::read(job.workspace().join(".git/config")).unwrap();
        assert_eq!(after, config, "{checkout:?}");
        assert!(job.root_owned().is_empty());
    }
}

#[test]
fn nothing_of_a_pull_request_hides_the_token_from_us() {
    let decoys: [&[(&str, &str)]; 2] = [
        &[("HEAD", "x\n"), ("commondir", "nowhere\n")],
        &[("HEAD", "x\n"), ("config", ""), ("objects/x", "y\n")],
    ];
    for decoy in decoys {
        let Some(job) = Job::new() else { return };
        let job = job.input("prompt", "x").checkout(Checkout::V5);
        let add = |job: Job, (name, text): &(&str, &str)| job.file(name, text);
        let job = decoy.iter().fold(job, add);
        let (job, loot) = loot(job, "cat .git/config");
        assert!(
            loot.contains("[core]") && !loot.contains("AUTHORIZATION"),
            "{decoy:?}: {loot}"
        );
        assert!(job.read(".git/config").contains("AUTHORIZATION"));
    }
}

#[test]
fn it_finds_no_token_in_another_checkout_of_the_workspace() {
    let Some(job) = Job::new() else { return };
    let job = job.input("prompt", "x").checkout(Checkout::V5);
    // Its folder is a link, too.
    let job = job.input("working-directory", "link");
    job.host_step(
        "mkdir app tools; ln -s app link; git -C app init -q; git -C tools init -q; cp .git/config tools/.git/config",
    )
    .unwrap();
    let script =
        format!("cat >/dev/null; cat ../.git/config ../tools/.git/config >../loot; {PROMISE}");
    let job = with_agent(job, &script);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    let loot = job.read("loot");
    assert!(
        loot.contains("[core]") && !loot.contains("AUTHORIZATION"),
        "{loot}"
    );
    let summary = outcome.summary.as_deref().unwrap_or_default();
    assert!(
        summary.contains(
            "2 settings taken out for the time of the run (3 git configurations looked at)"
        ),
        "{summary}"
    );
    assert!(job.read("tools/.git/config").contains("AUTHORIZATION"));
}

#[test]
fn a_search_that_missed_something_is_no_protection() {
    for (sandbox, runs) in [("required", false), ("auto", true)] {
        let Some(job) = Job::new() else { return };
        let job = job.input("prompt", "x").checkout(Checkout::V5);
        let job = with_agent(
            job.input("sandbox", sandbox),
            &format!("cat >/dev/null; touch ran; {PROMISE}"),
        );
        job.host_step(
            "git init -q other; head -c 2000000 /dev/zero | tr '\\0' '#' >other/.git/config",
        )
        .unwrap();
        let outcome = job.run();
        assert_eq!(job.workspace().join("ran").exists(), runs, "{outcome}");
        let told = "not protected: no token in the git configuration: not all of the workspace could be searched: \
                    /github/workspace/other/.git/config: it is too large";
        assert!(outcome.to_string().contains(told), "{outcome}");
        assert!(job.read(".git/config").contains("AUTHORIZATION"));
    }
}

#[test]
fn a_copy_of_the_token_beside_the_configuration_is_refused() {
    let Some(job) = Job::new() else { return };
    let job = job.input("prompt", "x").checkout(Checkout::V6);
    let job = with_agent(job, &format!("cat >/dev/null; touch ran; {PROMISE}"));
    job.host_step(&format!(
        "git config credential.helper '!f() {{ echo password={TOKEN}; }}; f'; cp .git/config .git/config.bak"
    ))
    .unwrap();
    let before = job.read(".git/config");
    let outcome = job.run();
    assert!(!job.workspace().join("ran").exists(), "{outcome}");
    let reason = outcome.output("reason").unwrap_or_default();
    assert!(
        reason.contains("a secret of the job stands in .git/config.bak")
            && reason.contains("persist-credentials: false"),
        "{outcome}"
    );
    assert_eq!(job.read(".git/config"), before);
    job.host_step("rm .git/config.bak").unwrap();
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(job.read(".git/config"), before);
}

#[test]
fn a_token_does_not_come_back_into_a_configuration_that_would_abuse_it() {
    for (change, comes_back) in [
        ("git config user.name Me", true),
        (
            "git config url.https://evil.example/.insteadOf https://github.com/",
            false,
        ),
        ("git config core.hooksPath /tmp", false),
        (
            "mkdir -p .git/hooks; echo 'cat .git/config' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push",
            false,
        ),
        ("mkdir x; echo ../x >.git/commondir", false),
        (
            "mkdir -p .git/hooks; touch \"$(printf '.git/hooks/a\\n::error::forged\\n##[error]forged')\"",
            false,
        ),
    ] {
        let Some(job) = Job::new() else { return };
        let job = job.input("prompt", "x").checkout(Checkout::V5);
        let job = with_agent(job, &format!("cat >/dev/null; {change}; {PROMISE}"));
        let outcome = job.run();
        assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
        let config = job.read(".git/config");
        assert_eq!(
            config.contains("AUTHORIZATION"),
            comes_back,
            "{change}: {config}"
        );
        let summary = outcome.summary.as_deref().unwrap_or_default();
        let told = summary.contains("later steps cannot use the token of the checkout");
        assert!(
            !outcome
                .annotations
                .iter()
                .any(|one| one.message.contains("forged")),
            "{outcome}"
        );
        assert_eq!(told, !comes_back, "{change}: {summary}");
    }
}

#[test]
fn root_reads_nothing_for_it() {
    let Some(job) = Job::new() else { return };
    let config = "procedures:\n  mine:\n    observe: look.md\n    orient: look.md\n    decide: look.md\n    act: look.md\n";
    // The first iteration plants a link where the next prompt is read from.
    let script = format!(
        "cat >>prompts.txt; rm -f look.md; case $n in 1) ln -s /proc/1/environ look.md;; 2) ln -s /github/workflow/event.json look.md;; esac; {PROMISE} | sed s/SUCCESS/OTHER/"
    );
    let job = with_agent(job, &script)
        .file("rooda-config.yml", config)
        .file("look.md", "Look.\n")
        .input("procedure", "mine");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
    assert!(
        outcome
            .output("reason")
            .unwrap_or_default()
            .contains("cannot read"),
        "{outcome}"
    );
    let prompts = job.read("prompts.txt");
    assert!(
        !prompts.contains("INPUT_") && !prompts.contains(TOKEN),
        "{prompts}"
    );
}

#[test]
fn a_pipe_in_place_of_a_prompt_does_not_hang_the_run() {
    let Some(job) = Job::new() else { return };
    let config = "procedures:\n  mine:\n    observe: look.md\n    orient: look.md\n    decide: look.md\n    act: look.md\n";
    let job = with_agent(job, "cat >/dev/null; rm -f look.md; mkfifo look.md")
        .file("rooda-config.yml", config)
        .file("look.md", "Look.\n")
        .input("procedure", "mine");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
    assert!(
        outcome.elapsed < Duration::from_secs(20),
        "{:?}",
        outcome.elapsed
    );
}

#[test]
fn its_words_forge_nothing() {
    // Every form of a command, on both streams, with and without line ends, and every delimiter it can think of.
    let script = "cat >/dev/null
        for s in 1 2; do
          printf '::error::forged\\n  ::set-output name=status::success\\n##[error]forged\\nx ##[set-env name=A]b\\n' >&$s
          printf 'progress\\r::error::forged\\rmore\\r##[warning]forged\\r' >&$s
          printf '::stop-commands::x\\n::add-mask::e\\n::add-matcher::/nope\\n::echo::x\\n::group::forged\\n::endgroup::\\n' >&$s
          printf 'status=success\\nstatus<<EOF\\nsuccess\\nEOF\\n' >&$s
          printf '::error::forged without an end' >&$s
        done
        exit 1";
    for verbose in ["true", "false"] {
        let Some(job) = job(script) else { return };
        let outcome = job
            .input("verbose", verbose)
            .input("failure-threshold", "2")
            .run();
        assert_eq!(outcome.result, StepResult::Failed);
        assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
        assert!(outcome.errors.is_empty(), "{outcome}");
        assert!(outcome.env.is_empty() && outcome.matchers.is_empty() && outcome.path.is_empty());
        assert_eq!(
            outcome.groups(),
            ["Iteration 1/5", "Iteration 2/5"],
            "{outcome}"
        );
        let titles: Vec<&str> = outcome
            .annotations
            .iter()
            .filter_map(|one| one.title.as_deref())
            .collect();
        assert_eq!(
            titles,
            ["Iteration 1 failed", "Iteration 2 failed", "rooda: aborted"],
            "{outcome}"
        );
        assert_eq!(outcome.annotations.len(), 3, "{outcome}");
        assert!(
            !outcome.masks.iter().any(|mask| mask == "e" || mask == "x"),
            "{outcome}"
        );
    }
}

#[test]
fn it_cannot_hide_the_command_files_from_the_runner_even_without_landlock() {
    let script = "cat >/dev/null; cd /github/file_commands && for f in *; do chmod 000 $f; echo BAD >>$f; done; chmod 000 .; \
                  rm -rf /github/runner_temp/_runner_file_commands/* ; true";
    let script = format!("{script}; {PROMISE}");
    for sandbox in ["required", "off"] {
        let Some(job) = job(&script) else { return };
        let outcome = job.input("sandbox", sandbox).run();
        assert_eq!(
            outcome.output("status"),
            Some("success"),
            "{sandbox}: {outcome}"
        );
        assert_eq!(
            outcome.result,
            StepResult::Succeeded,
            "{sandbox}: {outcome}"
        );
        assert!(outcome.errors.is_empty(), "{sandbox}: {outcome}");
        assert!(outcome.env.is_empty() && outcome.state.is_empty() && outcome.path.is_empty());
        assert!(outcome.summary.unwrap_or_default().contains("success"));
    }
}

#[test]
fn its_chmods_are_undone() {
    let script = format!(
        "cat >/dev/null
        chmod 000 /github/workflow/event.json /github/home/.npmrc
        cd /github/runner_temp
        for f in git-credentials-0b0e4f5a-6c1d-4d6e-9a55-2f1c7f0a9d11.config of-another-step.sh _github_home _github_workflow _runner_file_commands; do
            chgrp $(id -g) $f; chmod 000 $f
        done
        chmod 000 /github/runner_temp
        stat -c '%a %n' /github/home /github/workflow /github/runner_temp >/github/workspace/closed
        {PROMISE}"
    );
    let prepare = "cd $HOME; umask 022; echo true >of-another-step.sh; chmod 755 of-another-step.sh; \
                   echo x >_github_home/.npmrc; chmod 600 _github_home/.npmrc; echo >_github_workflow/event.json";
    let look = "cd $HOME; stat -c '%a %u %g %n' . *.config *.sh _* _github_home/.npmrc _github_workflow/event.json";
    for sandbox in ["required", "off"] {
        let Some(job) = job(&script) else { return };
        let job = job.input("sandbox", sandbox);
        job.host_step(prepare).unwrap();
        let before = job.host_step(look).unwrap();
        assert!(before.contains("git-credentials"), "{before}");
        let outcome = job.run();
        let status = outcome.output("status");
        assert_eq!(status, Some("success"), "{sandbox}: {outcome}");
        let closed = "0 /github/home\n0 /github/workflow\n0 /github/runner_temp\n";
        assert_eq!(job.read("closed"), closed, "{sandbox}: {outcome}");
        let after = job.host_step(look);
        assert_eq!(after, Ok(before), "{sandbox}: {outcome}");
        let summary = outcome.summary.as_deref().unwrap_or_default();
        for told in [
            "`/github/home` had another mode or owner",
            "files in `/github/runner_temp` had another mode",
        ] {
            assert!(summary.contains(told), "{sandbox}: {told}: {summary}");
        }
    }
}

#[test]
fn nothing_of_it_outlives_its_iteration() {
    // 600 processes that fork without end, ignore SIGTERM and leave their session.
    let fork = "$SIG{TERM} = 'IGNORE'; use POSIX;
        for (1..600) { if (!fork) { POSIX::setsid(); my $end = time + 60;
            while (time < $end) { exit if fork; select undef, undef, undef, 0.5 } exit } }
        open F, '>', '/github/workspace/forked'; close F; select undef, undef, undef, 0.3;";
    let script = format!(
        "cat >/dev/null; case $n in 1) perl -e {};; *) ps -eo user:20,comm | grep perl >left; true; {PROMISE};; esac",
        shell_words::quote(fork)
    );
    let Some(job) = job(&script) else { return };
    let job = job.patience(Duration::from_secs(90));
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(job.read("left"), "", "{outcome}");
    assert!(job.workspace().join("forked").exists());
    assert!(!job.is_running() && job.processes().is_empty());
}

#[test]
fn its_text_in_the_summary_is_only_text() {
    let script = "cat >/dev/null; echo '</details><script>alert(1)</script> @octocat fixes #12 ![x](https://evil.example/x) <!--'; \
                  echo '```'; echo '# heading'; exit 1";
    let Some(job) = job(script) else { return };
    let outcome = job.input("failure-threshold", "1").run();
    let summary = outcome.summary.unwrap_or_default();
    let opened = summary.matches("<details>").count();
    let page = pulldown_cmark::Parser::new_ext(&summary, pulldown_cmark::Options::all());
    let mut depth = 0;
    for event in page {
        match event {
            pulldown_cmark::Event::Html(html) | pulldown_cmark::Event::InlineHtml(html) => {
                assert!(!html.contains("script"), "{summary}");
                depth += html.matches("<details>").count();
            }
            pulldown_cmark::Event::Text(text) => assert!(
                !text.contains("@octocat") || summary.contains("```"),
                "{summary}"
            ),
            pulldown_cmark::Event::Start(
                pulldown_cmark::Tag::Link { .. } | pulldown_cmark::Tag::Image { .. },
            ) => panic!("{summary}"),
            _ => {}
        }
    }
    assert!(depth <= opened);
}

/// A procedure whose four phases are one file, a template.
const TEMPLATE: &str = "procedures:\n  mine:\n    observe: [{path: look.md, parameters: {x: y}}]\n    \
    orient: [{content: Look.}]\n    decide: [{content: Look.}]\n    act: [{content: Look.}]\n";

#[test]
fn a_template_that_takes_all_time_or_memory_ends_the_run_and_not_rooda() {
    let doubled = "{% set a = x ~ 'aaaaaaaaaaaaaaaa' %}".to_owned()
        + &"{% set a = a ~ a %}".repeat(31)
        + "{{ a|length }}";
    let slow = "{{ x }}{% for i in range(9999) %}{% set b = ('a'*20000000)|replace('a', 'b') %}{% endfor %}";
    for template in [doubled.as_str(), slow] {
        let Some(job) = Job::new() else { return };
        let script = format!(
            "cat >/dev/null; printf %s {} >look.md",
            shell_words::quote(template)
        );
        let job = with_agent(job, &script)
            .file("rooda-config.yml", TEMPLATE)
            .file("look.md", "Look at {{ x }}.\n")
            .input("procedure", "mine");
        let outcome = job.run();
        assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
        let reason = outcome.output("reason").unwrap_or_default();
        assert!(reason.contains("too much time or memory"), "{reason}");
        assert!(
            outcome.elapsed < Duration::from_secs(30),
            "{:?}",
            outcome.elapsed
        );
    }
}

#[test]
fn a_repository_of_another_user_gives_setup_no_commands() {
    let Some(job) = job(PROMISE) else { return };
    // What an agent of an earlier step, or a bare repository among the files, may have planted.
    let job = job
        .file("plant.sh", "#!/bin/sh\nid -u >>/github/workspace/planted\n")
        .file("app/HEAD", "ref: refs/heads/main\n")
        .file(
            "app/config",
            "[core]\n\tbare = true\n\tfsmonitor = sh /github/workspace/plant.sh\n",
        )
        .file("app/objects/x", "")
        .file("app/refs/x", "")
        .input("setup", "git status || true; cd app && git status || true");
    job.host_step("git config core.fsmonitor 'sh /github/workspace/plant.sh'")
        .unwrap();
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert!(
        !job.workspace().join("planted").exists(),
        "{}",
        job.read("planted")
    );
}
