//! The environment of the container: what is put together, in which order, and which paths are translated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) type Variables = BTreeMap<String, String>;

/// Where the folders of the job are, on the host and in the container; the most specific first.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    workspace: PathBuf,
    pairs: Vec<(String, &'static str)>,
}

impl Paths {
    /// `mounts_temp`: an older runner does not show the container the folder of `RUNNER_TEMP`.
    pub(super) fn new(workspace: &Path, temp: &Path, mounts_temp: bool) -> Self {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let mut pairs = vec![
            (text(workspace.to_owned()), "/github/workspace"),
            (
                text(temp.join("_runner_file_commands")),
                "/github/file_commands",
            ),
            (text(temp.join("_github_workflow")), "/github/workflow"),
            (text(temp.join("_github_home")), "/github/home"),
        ];
        if mounts_temp {
            pairs.push((text(temp.to_owned()), "/github/runner_temp"));
        }
        Paths {
            workspace: workspace.to_owned(),
            pairs,
        }
    }

    #[cfg(test)]
    pub(super) fn example() -> Self {
        Paths::new(Path::new("/w/demo/demo"), Path::new("/w/_temp"), true)
    }

    /// The host folder and the container folder of each mount.
    pub(super) fn mounts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(host, inside)| (host.as_str(), *inside))
    }

    /// Only the start of a value is looked at.
    pub(super) fn in_container(&self, value: &str) -> String {
        translate(value, self.mounts())
    }

    /// A file that the container names, as the runner finds it.
    pub(super) fn on_host(&self, file: &str) -> String {
        let file = translate(file, self.mounts().map(|(host, inside)| (inside, host)));
        self.workspace.join(file).to_str().unwrap().to_owned()
    }

    /// A file that the container names, relative to the workspace if it is in there.
    pub(super) fn in_workspace(&self, file: &str) -> String {
        let path = self.on_host(file);
        let relative = Path::new(&path).strip_prefix(&self.workspace);
        relative.map_or(path.clone(), |path| path.to_str().unwrap().to_owned())
    }
}

fn translate<'a>(value: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    for (from, to) in pairs {
        match value.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => return format!("{to}{rest}"),
            _ => {}
        }
    }
    value.to_owned()
}

/// The sources of the environment.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) proxy: Variables,
    /// What workflow, job and step set, and what earlier steps wrote to `GITHUB_ENV`.
    pub(super) env: Variables,
    pub(super) state: Variables,
    pub(super) inputs: Vec<(String, String)>,
    /// `runs.env` of the action: defaults, never more.
    pub(super) action: Variables,
    pub(super) home: String,
    /// Keys of the `github` context that are on the list, and of the `runner` context.
    pub(super) github: Vec<(String, String)>,
    pub(super) runner: Vec<(String, String)>,
    /// `ACTIONS_*`.
    pub(super) service: Variables,
}

/// Everything the container gets, translated.
pub(super) fn assemble(sources: &Sources, paths: &Paths) -> Variables {
    let mut all = sources.proxy.clone();
    all.extend(sources.env.clone());
    let state = sources.state.iter();
    all.extend(state.map(|(name, value)| (format!("STATE_{name}"), value.clone())));
    let inputs = sources.inputs.iter();
    all.extend(inputs.map(|(name, value)| (input_variable(name), value.clone())));
    for (name, value) in &sources.action {
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
    all.insert("HOME".to_owned(), sources.home.clone());
    for (prefix, context) in [("GITHUB", &sources.github), ("RUNNER", &sources.runner)] {
        for (key, value) in context {
            all.insert(format!("{prefix}_{}", key.to_uppercase()), value.clone());
        }
    }
    all.extend(sources.service.clone());
    for value in all.values_mut() {
        *value = paths.in_container(value);
    }
    all.insert("GITHUB_ACTIONS".to_owned(), "true".to_owned());
    let ci = all.entry("CI".to_owned());
    ci.or_insert_with(|| "true".to_owned());
    all
}

/// Spaces become underscores, letters upper case; all else stays, the dashes too.
fn input_variable(name: &str) -> String {
    format!("INPUT_{}", name.replace(' ', "_").to_uppercase())
}

#[cfg(test)]
fn variables(pairs: &[(&str, &str)]) -> Variables {
    let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn later_sources_win_but_the_actions_own_are_defaults() {
    let sources = Sources {
        proxy: variables(&[("HTTP_PROXY", "p"), ("http_proxy", "p")]),
        env: variables(&[
            ("HTTP_PROXY", "mine"),
            ("HOME", "/root"),
            ("GITHUB_SHA", "forged"),
            ("GITHUB_OTHER", "kept"),
            ("RUNNER_OS", "forged"),
            ("INPUT_A", "forged"),
            ("FROM_BOTH", "workflow"),
            ("CI", "false"),
        ]),
        state: variables(&[("isPost", "1")]),
        inputs: vec![
            ("a".into(), "1".into()),
            ("my input-x.y".into(), "2".into()),
        ],
        action: variables(&[("FROM_BOTH", "action"), ("FROM_ACTION", "action")]),
        home: "/w/_temp/_github_home".into(),
        github: vec![("sha".into(), "abc".into())],
        runner: vec![("os".into(), "Linux".into())],
        service: variables(&[("ACTIONS_RUNTIME_TOKEN", "t")]),
    };
    let expected = variables(&[
        ("ACTIONS_RUNTIME_TOKEN", "t"),
        ("CI", "false"),
        ("FROM_ACTION", "action"),
        ("FROM_BOTH", "workflow"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_OTHER", "kept"),
        ("GITHUB_SHA", "abc"),
        ("HOME", "/github/home"),
        ("HTTP_PROXY", "mine"),
        ("INPUT_A", "1"),
        ("INPUT_MY_INPUT-X.Y", "2"),
        ("RUNNER_OS", "Linux"),
        ("STATE_isPost", "1"),
        ("http_proxy", "p"),
    ]);
    assert_eq!(assemble(&sources, &Paths::example()), expected);
    let empty = assemble(&Sources::default(), &Paths::example());
    assert_eq!(empty["CI"], "true");
}

#[test]
fn values_that_begin_with_a_folder_of_the_job_are_translated() {
    let cases = [
        ("/w/demo/demo", "/github/workspace"),
        ("/w/demo/demo/src", "/github/workspace/src"),
        ("/w/demo/demonstration", "/w/demo/demonstration"),
        ("/w/_temp/_github_home/.x", "/github/home/.x"),
        (
            "/w/_temp/_runner_file_commands/a",
            "/github/file_commands/a",
        ),
        (
            "/w/_temp/_github_workflow/event.json",
            "/github/workflow/event.json",
        ),
        ("/w/_temp/other", "/github/runner_temp/other"),
        ("/bin:/w/demo/demo", "/bin:/w/demo/demo"),
        ("/w/demo", "/w/demo"),
    ];
    for (value, expected) in cases {
        assert_eq!(Paths::example().in_container(value), expected, "{value}");
    }
    let old = Paths::new(Path::new("/w/demo/demo"), Path::new("/w/_temp"), false);
    assert_eq!(old.in_container("/w/_temp"), "/w/_temp");
    assert_eq!(old.in_container("/w/_temp/_github_home"), "/github/home");
}
