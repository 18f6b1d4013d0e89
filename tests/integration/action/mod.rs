//! The action as GitHub runs it: the real program as PID 1 of a container, driven by a stand-in for the runner.

mod agents;
mod budgets;
mod ends;
mod fallback;
mod hostile;
mod inputs;
mod prepare;
mod registry;
mod tells;

use crate::runner::Job;

/// A job whose agent is a shell script. It finds the number of its iteration in `$n`.
fn job(script: &str) -> Option<Job> {
    let job = Job::new()?.input("prompt", "Do it");
    Some(with_agent(job, script))
}

fn with_agent(job: Job, script: &str) -> Job {
    let count = "n=$(cat $HOME/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >$HOME/n";
    let script = format!("{count}\n{script}");
    job.input("ai-cmd", &format!("sh -c {}", shell_words::quote(&script)))
}

const PROMISE: &str = "echo '<promise>SUCCESS</promise>'";
