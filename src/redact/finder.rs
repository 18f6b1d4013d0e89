//! The search for all forms of all secrets.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::Anchored;
use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;

/// Finds every form of every secret, also those that overlap.
///
/// The automaton looks at every byte, which is slow beside everything else that is done with output. Where nothing has
/// begun, most places are therefore passed over: if the two bytes at the end of a window are not together in the
/// beginning of any form, no form begins in the window but perhaps at its last byte.
pub(super) struct Finder {
    automaton: NFA,
    pub(super) start: StateID,
    /// How many bytes of a form have been seen in each state.
    depths: HashMap<StateID, usize>,
    window: usize,
    /// For each two bytes, how far the window may be moved on if it ends with them.
    shifts: Vec<u8>,
}

impl Finder {
    pub(super) fn new(forms: &[String]) -> Option<Self> {
        let automaton = NFA::new(forms).ok()?;
        let start = automaton.start_state(Anchored::No).ok()?;
        let mut depths = HashMap::new();
        for form in forms {
            let mut state = start;
            for (index, byte) in form.bytes().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                depths.insert(state, index + 1);
            }
        }
        let (window, shifts) = shifts(forms);
        Some(Finder {
            automaton,
            start,
            depths,
            window,
            shifts,
        })
    }

    /// Goes on from a state, and adds the ranges that are secret. `offset`: the place of the first byte.
    pub(super) fn scan(
        &self,
        mut state: StateID,
        bytes: &[u8],
        offset: usize,
        hidden: &mut Vec<Range<usize>>,
    ) -> StateID {
        let mut at = 0;
        loop {
            if state == self.start {
                at = self.next_candidate(bytes, at);
            }
            let Some(byte) = bytes.get(at) else {
                return state;
            };
            state = self.automaton.next_state(Anchored::No, state, *byte);
            at += 1;
            if self.automaton.is_match(state) {
                let end = offset + at;
                cover(hidden, end - self.longest(state)..end);
            }
        }
    }

    /// The next place where a form may begin, or where too little is left to tell.
    fn next_candidate(&self, bytes: &[u8], mut at: usize) -> usize {
        while let Some([first, second]) = bytes.get(at + self.window - 2..at + self.window) {
            let shift = self.shifts[usize::from(u16::from_be_bytes([*first, *second]))];
            if shift == 0 {
                break;
            }
            at += usize::from(shift);
        }
        at
    }

    /// The length of the longest form that ends here.
    fn longest(&self, state: StateID) -> usize {
        (0..self.automaton.match_len(state))
            .map(|index| self.automaton.match_pattern(state, index))
            .map(|form| self.automaton.pattern_len(form))
            .max()
            .unwrap_or_default()
    }

    /// How many of the last bytes could be the beginning of a secret.
    pub(super) fn depth(&self, state: StateID) -> usize {
        self.depths.get(&state).copied().unwrap_or_default()
    }
}

/// The length of the window, and how far it may be moved. It is no longer than the shortest form.
fn shifts(forms: &[String]) -> (usize, Vec<u8>) {
    const LONGEST: usize = 16;
    let shortest = forms.iter().map(String::len).min().unwrap_or(LONGEST);
    let window = shortest.clamp(2, LONGEST);
    let mut shifts = vec![(window - 1) as u8; 1 << 16];
    for form in forms {
        for (index, pair) in form.as_bytes()[..window].windows(2).enumerate() {
            let shift = &mut shifts[usize::from(u16::from_be_bytes([pair[0], pair[1]]))];
            *shift = (*shift).min((window - 2 - index) as u8);
        }
    }
    (window, shifts)
}

/// Adds a range that ends no earlier than all before it.
fn cover(hidden: &mut Vec<Range<usize>>, range: Range<usize>) {
    let mut start = range.start;
    while let Some(last) = hidden.pop_if(|last| last.end > start) {
        start = start.min(last.start);
    }
    hidden.push(start..range.end);
}
