//! The durations of the last iterations as a Mermaid chart, coloured by outcome.

use std::fmt::Write;
use std::time::Duration;

use super::Row;
use crate::iteration::Outcome;
use crate::units::Grouped;

/// More bars than this are too thin to tell apart.
pub(super) const MOST_BARS: usize = 40;
/// More numbers than this run into each other.
const MOST_NUMBERS: usize = 20;

/// A kind of bar: its colour, and what that means. Red is much darker than green, for those who cannot tell them apart.
const KINDS: [(&str, &str, &str); 3] = [
    ("#4ac26b", "green", "succeeded"),
    ("#cf222e", "red", "failed"),
    ("#8c959f", "grey", "interrupted"),
];

fn kind(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Continue | Outcome::JobDone => 0,
        Outcome::Failed(_) => 1,
        Outcome::Interrupted => 2,
    }
}

/// Nothing, if there is nothing to compare. `total` is the number of all iterations.
pub(super) fn chart(rows: &[Row], total: u32) -> Option<String> {
    let rows = &rows[rows.len().saturating_sub(MOST_BARS)..];
    let longest = rows.iter().map(|row| row.duration).max()?;
    let (unit, seconds) = unit(longest);
    let value = |duration: Duration| (duration.as_secs_f64() / seconds * 100.0).round() / 100.0;
    let most = value(longest);
    if rows.len() < 2 || most <= 0.0 {
        return None;
    }
    // Mermaid draws several series of bars at the same places, each with the next colour.
    let kinds: Vec<usize> = (0..KINDS.len())
        .filter(|index| rows.iter().any(|row| kind(row.outcome) == *index))
        .collect();
    let palette: Vec<&str> = kinds.iter().map(|index| KINDS[*index].0).collect();
    let legend: Vec<String> = kinds
        .iter()
        .map(|index| format!("{}: {}", KINDS[*index].1, KINDS[*index].2))
        .collect();
    let mut chart = format!(
        "```mermaid\n%%{{init: {{\"xyChart\": {{\"width\": 900, \"height\": 340}}, \"themeVariables\": \
         {{\"xyChart\": {{\"plotColorPalette\": \"{}\"}}}}}}}}%%\nxychart-beta\n",
        palette.join(", ")
    );
    let which = if rows.len() < total as usize {
        format!(
            "the last {} of {} iterations",
            rows.len(),
            Grouped(total.into())
        )
    } else {
        "each iteration".to_owned()
    };
    // Writing to a string cannot fail.
    writeln!(
        chart,
        "    title \"Duration of {which} ({})\"",
        legend.join(", ")
    )
    .ok();
    writeln!(chart, "    x-axis \"iteration\" [{}]", numbers(rows)).ok();
    writeln!(chart, "    y-axis \"{unit}\" 0 --> {most}").ok();
    for index in kinds {
        let bars: Vec<String> = rows
            .iter()
            .map(|row| match kind(row.outcome) == index {
                true => value(row.duration).to_string(),
                // A bar of no height is still drawn, as high as the space below the zero. One below that is not.
                false => (-most / 4.0).to_string(),
            })
            .collect();
        writeln!(chart, "    bar [{}]", bars.join(", ")).ok();
    }
    chart.push_str("```\n");
    Some(chart)
}

fn unit(longest: Duration) -> (&'static str, f64) {
    match longest.as_secs() {
        0 => ("milliseconds", 0.001),
        1..120 => ("seconds", 1.0),
        120..7_200 => ("minutes", 60.0),
        _ => ("hours", 3_600.0),
    }
}

/// The numbers below the bars. Where there are many, every fifth, and not the last, which would not fit. Each bar needs a
/// name of its own, and Mermaid takes spaces away: so the others are called by characters without width.
fn numbers(rows: &[Row]) -> String {
    let names = rows.iter().enumerate().map(|(index, row)| {
        let is_fifth = row.iteration.is_multiple_of(5) && index + 1 < rows.len();
        if rows.len() <= MOST_NUMBERS || is_fifth {
            row.iteration.to_string()
        } else {
            format!("\"{}\"", "\u{200b}".repeat(index + 1))
        }
    });
    names.collect::<Vec<String>>().join(", ")
}
