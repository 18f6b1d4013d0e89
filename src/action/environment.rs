//! What the agent sees of the job's environment: a list of what it may see, and nothing else.

use std::collections::BTreeMap;

use super::Inputs;
use crate::error::{Error, ErrorKind};
use crate::plan::Agent;

/// Facts that are no secrets, and that agents and their tools ask for.
const HARMLESS: [&str; 43] = [
    "CI",
    "GITHUB_ACTIONS",
    "GITHUB_ACTOR",
    "GITHUB_ACTOR_ID",
    "GITHUB_API_URL",
    "GITHUB_BASE_REF",
    "GITHUB_EVENT_NAME",
    "GITHUB_GRAPHQL_URL",
    "GITHUB_HEAD_REF",
    "GITHUB_JOB",
    "GITHUB_REF",
    "GITHUB_REF_NAME",
    "GITHUB_REF_TYPE",
    "GITHUB_REPOSITORY",
    "GITHUB_REPOSITORY_ID",
    "GITHUB_REPOSITORY_OWNER",
    "GITHUB_RUN_ATTEMPT",
    "GITHUB_RUN_ID",
    "GITHUB_RUN_NUMBER",
    "GITHUB_SERVER_URL",
    "GITHUB_SHA",
    "GITHUB_TRIGGERING_ACTOR",
    "GITHUB_WORKFLOW",
    "GITHUB_WORKSPACE",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "RUNNER_ARCH",
    "RUNNER_OS",
    "TERM",
    "TZ",
    // Without these, nothing reaches the network where a runner stands behind a proxy.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Who commits when nobody said who. GitHub shows it as its own.
const AUTHOR: (&str, &str) = (
    "github-actions[bot]",
    "41898282+github-actions[bot]@users.noreply.github.com",
);

/// The environment of the agent, and what is odd about it.
#[derive(Debug)]
pub struct Passed {
    pub environment: BTreeMap<String, String>,
    /// The same without keys and whatever the user named: for what only prepares the agent.
    pub keyless: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

/// Builds the environment of an agent. `home` is its own.
pub fn agent_environment(
    job: &BTreeMap<String, String>,
    inputs: &Inputs,
    agent: &Agent,
    home: &str,
    is_root: bool,
) -> Result<Passed, Error> {
    let mut keyless = harmless(job);
    let path = job.get("PATH").map_or(PATH, String::as_str);
    let set = [
        ("PATH", format!("{home}/.local/bin:{path}")),
        ("HOME", home.to_owned()),
        ("USER", "agent".to_owned()),
        ("LOGNAME", "agent".to_owned()),
        ("SHELL", "/bin/bash".to_owned()),
        ("TMPDIR", "/tmp".to_owned()),
        // Here the agent may install what it likes.
        ("npm_config_prefix", format!("{home}/.local")),
        ("npm_config_update_notifier", "false".to_owned()),
    ];
    keyless.extend(set.map(|(name, value)| (name.to_owned(), value)));
    if is_root {
        // Claude Code asks for this before it works as root without questions; the container is the sandbox it means.
        keyless.insert("IS_SANDBOX".to_owned(), "1".to_owned());
    }
    // The workspace may belong to another user than the agent is, and git shall not mind.
    keyless.extend(git_setting("safe.directory", "*"));
    let mut environment = keyless.clone();
    environment.extend(author(job));
    environment.extend(given(job, agent.keys.iter().map(String::as_str)));
    environment.extend(given(job, inputs.agent_env.iter().map(String::as_str)));
    keep_the_tokens(&environment, job)?;
    let missing = |name: &&String| !environment.contains_key(*name);
    let unset = inputs.agent_env.iter().filter(missing).map(|name| {
        format!("agent-env names {name}, which is not set (set it under `env:` of the step)")
    });
    // Whoever names variables may have named the key among them.
    let keyless_agent = inputs.agent_env.is_empty().then_some(agent);
    let warnings = unset.chain(keyless_agent.and_then(|agent| without_key(agent, &environment)));
    Ok(Passed {
        warnings: warnings.collect(),
        environment,
        keyless,
    })
}

/// An agent without any of its keys will hardly get far.
fn without_key(agent: &Agent, environment: &BTreeMap<String, String>) -> Option<String> {
    let has_one = agent.keys.iter().any(|key| environment.contains_key(key));
    (!has_one && !agent.keys.is_empty()).then(|| {
        format!(
            "{}: none of its keys is set ({}); add one under `env:` of the step (a secret that does not exist is empty)",
            agent.name,
            agent.keys.join(", ")
        )
    })
}

/// The environment of the script that sets things up: root's, but without anything that is not its business.
pub fn setup_environment(
    job: &BTreeMap<String, String>,
    inputs: &Inputs,
) -> BTreeMap<String, String> {
    let mut environment = harmless(job);
    environment.extend(given(job, inputs.agent_env.iter().map(String::as_str)));
    // Root does not trust a repository that is not root's: it can hold programs that git would run. Nor one that lies
    // among the files of another.
    environment.extend(git_setting("safe.bareRepository", "explicit"));
    let set = [
        ("PATH", job.get("PATH").map_or(PATH, String::as_str)),
        ("HOME", "/root"),
        ("DEBIAN_FRONTEND", "noninteractive"),
    ];
    environment.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    environment
}

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn harmless(job: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let npm = job
        .keys()
        .map(String::as_str)
        .filter(|name| is_npm_setting(name));
    given(job, HARMLESS.into_iter().chain(npm))
}

/// A setting of git for who gets these variables; nobody's configuration needs to be touched for it.
fn git_setting(key: &str, value: &str) -> [(String, String); 3] {
    [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", key),
        ("GIT_CONFIG_VALUE_0", value),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Whether a variable tells npm, which installs agents, where and how; but not who it is.
fn is_npm_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_secret = ["auth", "token", "password", "key", "cert", "otp", "user"]
        .iter()
        .any(|word| name.contains(word));
    name.starts_with("npm_config_") && !is_secret
}

/// Those variables that are set. An empty one is what a workflow passes for a secret that is not there.
fn given<'a>(
    job: &BTreeMap<String, String>,
    names: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), job.get(name)?.clone())))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// Who commits.
fn author(job: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let roles = ["AUTHOR", "COMMITTER"].into_iter().flat_map(|role| {
        [("NAME", AUTHOR.0), ("EMAIL", AUTHOR.1)].map(|(what, default)| {
            let name = format!("GIT_{role}_{what}");
            let value = job.get(&name).filter(|value| !value.is_empty());
            let value = value.map_or(default, String::as_str).to_owned();
            (name, value)
        })
    });
    roles.collect()
}

/// Whatever its name: a token of the job is not passed.
fn keep_the_tokens(
    environment: &BTreeMap<String, String>,
    job: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let tokens: Vec<&String> = [
        "INPUT_TOKEN",
        "GITHUB_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    ]
    .into_iter()
    .filter_map(|name| job.get(name))
    .filter(|token| token.len() >= 8)
    .collect();
    let holds = |value: &String| tokens.iter().any(|token| value.contains(token.trim()));
    match environment.iter().find(|(_, value)| holds(value)) {
        None => Ok(()),
        Some((name, _)) => {
            let message =
                format!("the variable {name} holds the token of the job, which no agent may see");
            Err(Error::new(ErrorKind::Config, message).hint(
                "give the agent a token of its own with few rights, or leave this variable out",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::read_inputs;
    use crate::config::{Catalogue, builtin_layers};

    fn job(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        let mut job: BTreeMap<_, _> = [
            ("INPUT_PROCEDURE", "build"),
            ("INPUT_TOKEN", "ghs_0123456789"),
            ("ACTIONS_RUNTIME_TOKEN", "runtime-token"),
            ("GITHUB_TOKEN", "ghs_0123456789"),
            ("GITHUB_OUTPUT", "/github/file_commands/set_output_1"),
            ("GITHUB_REPOSITORY", "org/app"),
            ("HOME", "/github/home"),
            ("PATH", "/usr/bin"),
            ("ANTHROPIC_API_KEY", "sk-ant-1234"),
            ("OPENAI_API_KEY", "sk-open-1234"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("NPM_CONFIG_REGISTRY", "https://npm.example"),
            ("NPM_CONFIG__AUTHTOKEN", "npm-secret"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        job.extend(
            variables
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
        );
        job
    }

    fn claude() -> Agent {
        let mut layers = builtin_layers().expect("the built-in aliases");
        let agents = Catalogue::new(&mut layers).agents();
        let claude = agents.into_iter().find(|agent| agent.name == "claude");
        claude.expect("one of them")
    }

    fn passed(variables: &[(&str, &str)]) -> Result<Passed, Error> {
        let job = job(variables);
        let inputs = read_inputs(&job).expect("the inputs are well");
        agent_environment(&job, &inputs, &claude(), "/home/agent", false)
    }

    #[test]
    fn the_agent_sees_its_own_keys_and_harmless_facts_and_nothing_else() {
        let environment = passed(&[]).expect("all is well").environment;
        let names: Vec<&str> = environment.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "ANTHROPIC_API_KEY",
                "GITHUB_REPOSITORY",
                "GIT_AUTHOR_EMAIL",
                "GIT_AUTHOR_NAME",
                "GIT_COMMITTER_EMAIL",
                "GIT_COMMITTER_NAME",
                "GIT_CONFIG_COUNT",
                "GIT_CONFIG_KEY_0",
                "GIT_CONFIG_VALUE_0",
                "HOME",
                "LOGNAME",
                "NPM_CONFIG_REGISTRY",
                "PATH",
                "SHELL",
                "TMPDIR",
                "USER",
                "npm_config_prefix",
                "npm_config_update_notifier",
            ]
        );
        assert_eq!(environment["HOME"], "/home/agent");
        assert_eq!(environment["PATH"], "/home/agent/.local/bin:/usr/bin");
    }

    #[test]
    fn variables_are_passed_by_name_and_a_missing_one_is_told() {
        let passed = passed(&[
            ("INPUT_AGENT-ENV", "DATABASE_URL, MISSING"),
            ("DATABASE_URL", "pg"),
        ]);
        let passed = passed.expect("all is well");
        assert_eq!(passed.environment["DATABASE_URL"], "pg");
        assert_eq!(passed.warnings.len(), 1);
        assert!(passed.warnings[0].contains("MISSING, which is not set"));
    }

    #[test]
    fn an_agent_without_its_keys_is_told() {
        let passed = passed(&[("ANTHROPIC_API_KEY", "")]).expect("all is well");
        assert_eq!(passed.warnings.len(), 1);
        assert!(
            passed.warnings[0].starts_with("claude: none of its keys is set (ANTHROPIC_API_KEY, ")
        );
    }

    #[test]
    fn the_token_of_the_job_is_passed_under_no_name() {
        let hidden = [
            ("INPUT_AGENT-ENV", "URL"),
            ("URL", "https://x:ghs_0123456789@github.com"),
        ];
        let runtime = [("INPUT_AGENT-ENV", "URL"), ("URL", "runtime-token")];
        assert!(passed(&runtime).is_err());
        let error = passed(&hidden).expect_err("it holds the token");
        assert!(
            error
                .to_string()
                .contains("the variable URL holds the token")
        );
    }
}
