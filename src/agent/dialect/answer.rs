//! What an answer of a provider means. Only for what a CLI itself reports as an error: who merely talks about rate
//! limits has none.

use std::time::Duration;

use crate::agent::trouble::{
    Cause::{Credit, Key, Model},
    TroubleKind::{self, ContextFull, Other, Overloaded, Permanent, RateLimited},
};

/// By the HTTP status, and, where that says little, by the words.
pub(super) fn kind(status: Option<u64>, message: &str) -> TroubleKind {
    let by_status = status.map_or(Other, of_status);
    let by_message = || of_message(message).unwrap_or(Other);
    match by_status {
        Other => by_message(),
        // Nobody waits for an account without money.
        RateLimited if by_message() == Permanent(Credit) => Permanent(Credit),
        kind => kind,
    }
}

fn of_status(status: u64) -> TroubleKind {
    match status {
        401 | 403 => Permanent(Key),
        402 => Permanent(Credit),
        404 => Permanent(Model),
        413 => ContextFull,
        429 => RateLimited,
        500..=599 => Overloaded,
        _ => Other,
    }
}

/// The sentences and codes of providers, and those that CLIs make of them. The first that fits counts.
const SENTENCES: [(&str, TroubleKind); 28] = [
    ("context_length_exceeded", ContextFull),
    ("maximum context length", ContextFull),
    ("context window", ContextFull),
    ("prompt is too long", ContextFull),
    ("input token count", ContextFull),
    ("insufficient_quota", Permanent(Credit)),
    ("quota exceeded. check your plan", Permanent(Credit)),
    ("credit balance is too low", Permanent(Credit)),
    ("insufficient credit", Permanent(Credit)),
    ("billing_error", Permanent(Credit)),
    ("exceeded your current quota", RateLimited),
    ("usage limit", RateLimited),
    ("rate limit", RateLimited),
    ("rate_limit", RateLimited),
    ("too many requests", RateLimited),
    ("resource_exhausted", RateLimited),
    ("invalid_api_key", Permanent(Key)),
    ("invalid api key", Permanent(Key)),
    ("incorrect api key", Permanent(Key)),
    ("api key not valid", Permanent(Key)),
    ("authentication_error", Permanent(Key)),
    ("unauthenticated", Permanent(Key)),
    ("model_not_found", Permanent(Model)),
    ("does not exist or you do not have access", Permanent(Model)),
    ("is not found for api version", Permanent(Model)),
    ("high demand", Overloaded),
    ("overloaded", Overloaded),
    ("service unavailable", Overloaded),
];

fn of_message(message: &str) -> Option<TroubleKind> {
    let message = beginning(message).to_lowercase();
    let mut sentences = SENTENCES.iter();
    sentences
        .find(|(sentence, _)| message.contains(sentence))
        .map(|(_, kind)| *kind)
}

/// The status that a message tells of, as in `unexpected status 401 Unauthorized` and `last status: 429`.
pub(super) fn status_in(message: &str) -> Option<u64> {
    let message = beginning(message);
    message.match_indices("status").find_map(|(at, word)| {
        let after = message[at + word.len()..].trim_start_matches([':', ' ']);
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        let status = after[..end].parse().ok()?;
        (400..600).contains(&status).then_some(status)
    })
}

/// How long to wait, as in `Please try again in 1.5s` and `try again in 2 days 3 hours 5 minutes`.
pub(super) fn wait_in(message: &str) -> Option<Duration> {
    let message = beginning(message).to_lowercase();
    let (_, after) = message.split_once("try again in ")?;
    let mut rest = after;
    let mut seconds = 0.0;
    loop {
        let number = prefix(rest, |c| c.is_ascii_digit() || c == '.');
        let unit = rest[number.len()..].trim_start();
        let unit = prefix(unit, |c| c.is_ascii_alphabetic());
        let (Ok(count), Some(length)) = (number.parse::<f64>(), seconds_of(unit)) else {
            break;
        };
        seconds += count * length;
        let after_number = rest[number.len()..].trim_start();
        rest = after_number[unit.len()..].trim_start_matches([' ', ',']);
    }
    (seconds > 0.0)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

fn prefix(text: &str, fits: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !fits(c)).unwrap_or(text.len());
    // A full stop after a number ends the sentence.
    text[..end].trim_end_matches('.')
}

fn seconds_of(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" | "sec" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "minute" | "minutes" => Some(60.0),
        "h" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86400.0),
        _ => None,
    }
}

/// Whoever writes a long message says at its beginning what is the matter.
fn beginning(message: &str) -> &str {
    const MOST: usize = 4096;
    let mut end = message.len().min(MOST);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_and_words_help_where_it_says_little() {
        for (status, message, expected) in [
            (Some(401), "", Permanent(Key)),
            (Some(403), "rate limit", Permanent(Key)),
            (Some(402), "", Permanent(Credit)),
            (Some(404), "", Permanent(Model)),
            (Some(413), "", ContextFull),
            (Some(429), "", RateLimited),
            (Some(429), "code: insufficient_quota", Permanent(Credit)),
            (
                Some(429),
                "You exceeded your current quota, please check your plan",
                RateLimited,
            ),
            (Some(500), "rate limit", Overloaded),
            (Some(529), "", Overloaded),
            (Some(400), "Bad request", Other),
            (
                Some(400),
                "API key not valid. Please pass a valid API key.",
                Permanent(Key),
            ),
            (
                Some(400),
                "This model's maximum context length is 128000 tokens.",
                ContextFull,
            ),
            (Some(408), "", Other),
            (Some(409), "", Other),
            (None, "Credit balance is too low", Permanent(Credit)),
            (
                None,
                "Quota exceeded. Check your plan and billing details.",
                Permanent(Credit),
            ),
            (None, "You've hit your usage limit.", RateLimited),
            (None, "something else", Other),
        ] {
            assert_eq!(kind(status, message), expected, "{status:?} {message}");
        }
    }

    #[test]
    fn a_status_is_read_from_words() {
        for (message, status) in [
            (
                "unexpected status 401 Unauthorized: no, url: http://x/429",
                Some(401),
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                Some(429),
            ),
            ("status page says status 503", Some(503)),
            ("status 4012", None),
            ("no such thing", None),
        ] {
            assert_eq!(status_in(message), status, "{message}");
        }
    }

    #[test]
    fn a_pause_is_read_from_words() {
        for (message, seconds) in [
            ("Rate limit reached. Please try again in 1s.", Some(1.0)),
            ("Please try again in 1.5s. Visit", Some(1.5)),
            ("Please try again in 250ms", Some(0.25)),
            ("or try again in 2 days 3 hours 5 minutes.", Some(183_900.0)),
            ("try again in 6m0s", Some(360.0)),
            ("Try again in 1e9999 days", None),
            ("Try again in 99999999999999999999999999 days", None),
            ("try again in a moment", None),
            ("try again later", None),
        ] {
            let expected = seconds.map(Duration::from_secs_f64);
            assert_eq!(wait_in(message), expected, "{message}");
        }
    }
}
