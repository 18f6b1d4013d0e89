use proptest::prelude::*;

use super::*;

/// The tags in a text: a promise that an agent did not make must not come of anything.
fn tags(text: &str) -> Vec<&str> {
    let ends = text.match_indices(TAG).filter_map(|(at, _)| {
        let end = text[at..].find("</promise>")? + at;
        Some(&text[at..end])
    });
    ends.collect()
}

/// The same event with another key in it, and its keys in another order.
fn rearranged(line: &str) -> String {
    fn reversed(value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::Object(map) => {
                let news = [("something_new".to_owned(), Value::from(vec![1, 2]))];
                let old = map.into_iter().map(|(key, value)| (key, reversed(value)));
                Value::Object(news.into_iter().chain(old.rev()).collect())
            }
            Value::Array(list) => list.into_iter().map(reversed).collect(),
            other => other,
        }
    }
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    reversed(value).to_string()
}

#[test]
fn new_fields_new_events_and_another_order_change_nothing() {
    for (name, format, output) in streams() {
        let output = std::str::from_utf8(output).unwrap();
        let mut changed = String::new();
        for line in output.lines() {
            changed.push_str(&rearranged(line));
            changed.push_str(
                "\n{\"type\":\"something.new\",\"text\":\"<promise>FAILURE</promise>\"}\n",
            );
        }
        let exit = exit_code(name);
        let expected = decoded(format, output.as_bytes(), usize::MAX, exit).0;
        assert_eq!(
            decoded(format, changed.as_bytes(), 4096, exit).0,
            expected,
            "{name}"
        );
    }
}

#[test]
fn no_piece_of_a_stream_ends_it_or_promises_more() {
    for (name, format, output) in streams() {
        let complete = decoded(format, output, usize::MAX, exit_code(name)).0;
        // Inside of a line nothing changes, so its ends and what is around them will do.
        let ends = memchr::memchr_iter(b'\n', output).flat_map(|at| [at - 1, at, at + 1, at + 2]);
        for end in ends.filter(|end| *end <= output.len()) {
            let cut = decoded(format, &output[..end], usize::MAX, exit_code(name)).0;
            assert!(!cut.has_ended || cut == complete, "{name} {end}");
            assert!(complete.words.starts_with(&cut.words), "{name} {end}");
        }
    }
}

const BEGUN: &str = concat!(
    "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n",
    "{\"type\":\"assistant\",\"session_id\":\"s\",\"message\":{\"id\":\"1\",\"content\":",
    "[{\"type\":\"text\",\"text\":\"Hi.\"}],\"usage\":{\"input_tokens\":5000,\"output_tokens\":1}}}\n",
);

#[test]
fn half_an_event_does_not_turn_a_stream_into_text() {
    let output = format!("{BEGUN}{{\"type\":\"assistant\",\"mess");
    for expected in [Format::Claude, Format::Auto] {
        let cut = whole(expected, output.as_bytes());
        assert_eq!(cut.format, Format::Claude, "{expected:?}");
    }
}

#[test]
fn what_was_told_to_be_used_up_is_used_up_whatever_comes_after() {
    let output = format!("{BEGUN}Aborted\n");
    let (transcript, heard) = decoded(Format::Auto, output.as_bytes(), usize::MAX, None);
    assert_eq!(heard.usage.last(), Some(&transcript.usage));
}

#[test]
fn an_event_far_to_the_right_is_one_or_none_however_it_comes() {
    let output = format!("{}{BEGUN}", " ".repeat(LONGEST_BLANK));
    let all = decoded(Format::Claude, output.as_bytes(), usize::MAX, None);
    assert_eq!(decoded(Format::Claude, output.as_bytes(), 1, None), all);
}

proptest! {
    #[test]
    fn no_bytes_can_break_it(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        size in 1_usize..50,
    ) {
        for expected in [Format::Auto, Format::Claude, Format::Copilot] {
            let (transcript, heard) = decoded(expected, &bytes, size, None);
            prop_assert_eq!(transcript.format, Format::Text);
            prop_assert_eq!(&heard.text, &bytes);
        }
    }

    #[test]
    fn chunks_change_nothing(
        pieces in prop::collection::vec(prop_oneof![
            Just(BEGUN.to_owned()),
            Just(BEGUN.lines().next().unwrap().to_owned()),
            Just("\n".to_owned()),
            Just("\r\n".to_owned()),
            Just("\u{feff}".to_owned()),
            Just(" \t".to_owned()),
            Just("{\"type\":\"result\",\"session_id\":\"s\",\"result\":\"x\",\"usage\":{}}".to_owned()),
            Just("[{\"type\":\"turn.started\"},".to_owned()),
            Just("{\"type\":\"thread.started\",\"thread_id\":\"1\"}\n".to_owned()),
            Just("x".repeat(30 << 10)),
            Just("x\n".repeat(20 << 10)),
            "[\\[{\"a ]{1,4}",
        ], 0..14),
        size in 1_usize..20,
    ) {
        let output = pieces.concat();
        for expected in [Format::Auto, Format::Claude, Format::Codex] {
            let all = decoded(expected, output.as_bytes(), usize::MAX, None);
            prop_assert_eq!(decoded(expected, output.as_bytes(), size, None), all);
        }
    }

    #[test]
    fn no_json_can_break_it(
        which in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        junk in "([{}\\[\\],:\"0-9a-z\\\\ud8]|null|true|\"type\":\"(result|assistant|error)\"){0,20}",
        at in any::<prop::sample::Index>(),
    ) {
        let streams = streams();
        let (name, format, output) = *which.get(&streams);
        let complete = whole(format, output);
        let mut lines: Vec<Vec<u8>> = output.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let line = line.index(lines.len());
        // Damage to a line.
        let at = at.index(lines[line].len());
        lines[line].splice(at..at, junk.bytes());
        for size in [13, usize::MAX] {
            let (transcript, _) = decoded(format, &lines.concat(), size, None);
            for tag in tags(&transcript.words) {
                prop_assert!(tags(&complete.words).contains(&tag) || tag.contains(&junk), "{} {}", name, tag);
            }
        }
    }

    #[test]
    fn garbage_between_the_lines_changes_no_word(
        which in any::<prop::sample::Index>(),
        garbage in prop::collection::vec(("[ -~]{0,40}|<promise>SUCCESS</promise>|\\{\"type\":\"[a-z.]{0,9}\"\\}", any::<prop::sample::Index>()), 1..6),
        size in 1_usize..5000,
    ) {
        let streams = streams();
        let (name, format, output) = *which.get(&streams);
        let complete = whole(format, output);
        let mut lines: Vec<Vec<u8>> = output.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for (text, at) in garbage {
            lines.insert(at.index(lines.len()), format!("{text}\n").into_bytes());
        }
        let (transcript, _) = decoded(format, &lines.concat(), size, None);
        prop_assert_eq!(&tags(&transcript.words), &tags(&complete.words), "{}", name);
    }

    #[test]
    fn a_cut_anywhere_is_harmless(
        which in any::<prop::sample::Index>(),
        start in any::<prop::sample::Index>(),
        end in any::<prop::sample::Index>(),
        size in 1_usize..5000,
    ) {
        let streams = streams();
        let (_, format, output) = *which.get(&streams);
        let (start, end) = (start.index(output.len()), end.index(output.len()));
        let (start, end) = (start.min(end), start.max(end));
        let complete = whole(format, output);
        for expected in [format, Format::Auto] {
            let (cut, _) = decoded(expected, &output[..end], size, None);
            prop_assert!(!cut.has_ended || cut.words == complete.words);
            let (piece, _) = decoded(expected, &output[start..end], size, None);
            for tag in tags(&piece.words) {
                prop_assert!(tags(&complete.words).contains(&tag));
            }
        }
    }

    #[test]
    fn no_value_can_break_it(
        which in any::<prop::sample::Index>(),
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..8), 1..20),
    ) {
        let streams = streams();
        let (_, format, output) = *which.get(&streams);
        let lines = std::str::from_utf8(output).unwrap().lines();
        let mut values: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        for (at, with) in spoilt {
            let line = at.index(values.len());
            spoil(&mut values[line], &mut at.index(60), SPOILS[with]);
        }
        let mut output = String::new();
        for value in values.iter().chain(&values) {
            writeln!(output, "{value}").unwrap();
        }
        let (transcript, heard) = decoded(format, output.as_bytes(), usize::MAX, Some(145));
        prop_assert_eq!(heard.words, transcript.words);
    }
}

/// What no CLI would write where something else is expected.
const SPOILS: [&str; 8] = [
    "null",
    "-1",
    "1e300",
    "18446744073709551615",
    "\"\"",
    "\"\\u0000\u{2028}\"",
    "[[{}],[]]",
    "{\"type\":{}}",
];

/// Puts another value in place of one of those that hold no others, counted around.
fn spoil(value: &mut serde_json::Value, left: &mut usize, with: &str) {
    match value {
        serde_json::Value::Object(map) => {
            map.values_mut().for_each(|value| spoil(value, left, with));
        }
        serde_json::Value::Array(list) => {
            list.iter_mut().for_each(|value| spoil(value, left, with));
        }
        leaf => {
            if *left == 0 {
                *leaf = serde_json::from_str(with).unwrap();
            }
            *left = left.wrapping_sub(1);
        }
    }
}
