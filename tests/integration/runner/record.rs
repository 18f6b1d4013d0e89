//! What the runner notes down about a step: the log, the annotations, and everything the step hands on.

use std::collections::BTreeMap;

use super::annotations::{self, Annotation, Kind};
use super::masks::Masks;

#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) log: Vec<String>,
    pub(super) annotations: Vec<Annotation>,
    /// How many annotations the job already has from the steps before.
    pub(super) annotations_before: usize,
    /// What the runner itself had to complain about.
    pub(super) errors: Vec<String>,
    /// A command, or a command file, could not be processed: the step fails, whatever its exit code.
    pub(super) failed: bool,
    pub(super) outputs: BTreeMap<String, String>,
    pub(super) state: BTreeMap<String, String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) path: Vec<String>,
    pub(super) summary: Option<String>,
    pub(super) masks: Masks,
    pub(super) matchers: Vec<String>,
    pub(super) debug: bool,
}

impl Record {
    /// Everything that is written is masked with what is known by then.
    pub(super) fn print(&mut self, text: &str) {
        let lines = text.split('\n').map(|line| self.masks.hide(line));
        let lines: Vec<String> = lines.collect();
        self.log.extend(lines);
    }

    pub(super) fn print_debug(&mut self, text: &str) {
        if self.debug {
            self.print(&format!("##[debug]{text}"));
        }
    }

    pub(super) fn annotate(&mut self, mut annotation: Annotation) {
        annotation.message = annotations::cut(&self.masks.hide(&annotation.message));
        if !annotation.message.is_empty() {
            let word = annotation.kind.word();
            self.print(&format!("##[{word}]{}", annotation.message));
        }
        if annotation.message.trim().is_empty() {
            return;
        }
        annotation.title = annotation.title.map(|title| self.masks.hide(&title));
        let kept = self.annotations.iter().filter(|one| one.kept);
        let of_kind = kept.clone().filter(|one| one.kind == annotation.kind);
        annotation.kept = of_kind.count() < annotations::PER_STEP
            && self.annotations_before + kept.count() < annotations::PER_JOB;
        self.annotations.push(annotation);
    }

    /// The runner's own complaint.
    pub(super) fn error(&mut self, message: &str) {
        self.errors.push(self.masks.hide(message));
        self.annotate(Annotation::of_runner(Kind::Error, message));
    }

    pub(super) fn warning(&mut self, message: &str) {
        self.annotate(Annotation::of_runner(Kind::Warning, message));
    }

    /// Two complaints, and the step fails.
    pub(super) fn fail(&mut self, what: &str, why: &str) {
        self.error(what);
        self.error(why);
        self.failed = true;
    }

    pub(super) fn set_output(&mut self, name: &str, value: &str) {
        insert(&mut self.outputs, name, value);
    }

    pub(super) fn save_state(&mut self, name: &str, value: &str) {
        insert(&mut self.state, name, value);
    }

    /// A path that is already there moves to the end, which is searched first.
    pub(super) fn add_path(&mut self, path: &str) {
        self.path.retain(|known| known != path);
        self.path.push(path.to_owned());
    }
}

/// Names are compared without regard to case; the first spelling stays.
fn insert(map: &mut BTreeMap<String, String>, name: &str, value: &str) {
    let known = map.keys().find(|known| known.eq_ignore_ascii_case(name));
    let name = known.cloned().unwrap_or_else(|| name.to_owned());
    map.insert(name, value.to_owned());
}

#[test]
fn ten_annotations_of_a_kind_are_kept_in_a_step_and_fifty_in_a_job() {
    let mut record = Record::default();
    for number in 0..12 {
        record.annotate(Annotation::of_runner(Kind::Error, &format!("e{number}")));
    }
    record.annotate(Annotation::of_runner(Kind::Notice, "n"));
    let kept: Vec<bool> = record.annotations.iter().map(|one| one.kept).collect();
    assert_eq!(kept[..10], [true; 10]);
    assert_eq!(kept[10..], [false, false, true]);
    assert_eq!(record.log.len(), 13);

    record.annotations_before = 38;
    record.annotate(Annotation::of_runner(Kind::Notice, "the fiftieth"));
    record.annotate(Annotation::of_runner(Kind::Notice, "one more"));
    let kept: Vec<bool> = record.annotations.iter().map(|one| one.kept).collect();
    assert_eq!(kept[13..], [true, false]);
}

#[test]
fn a_blank_message_makes_no_annotation_and_a_long_one_is_masked_before_it_is_cut() {
    let mut record = Record::default();
    record.masks.add("secret");
    record.annotate(Annotation::of_runner(Kind::Warning, ""));
    record.annotate(Annotation::of_runner(Kind::Warning, " "));
    assert_eq!(record.annotations, []);
    record.warning(&format!("secret{}", "x".repeat(5000)));
    let expected = format!("***{}", "x".repeat(4093));
    assert_eq!(record.annotations[0].message, expected);
    assert_eq!(
        record.log,
        ["##[warning] ", &format!("##[warning]{expected}")]
    );
}

#[test]
fn names_of_outputs_do_not_heed_case_and_paths_move_to_the_end() {
    let mut record = Record::default();
    record.set_output("Status", "a");
    record.set_output("status", "b");
    assert_eq!(
        record.outputs,
        BTreeMap::from([("Status".into(), "b".into())])
    );
    for path in ["/a", "/b", "/a"] {
        record.add_path(path);
    }
    assert_eq!(record.path, ["/b", "/a"]);
}
