//! Durations and sizes as people write and read them.

use std::fmt;
use std::time::Duration;

/// Reads `90`, `90s`, `5m`, `1h30m`, `1.5h`, `250ms`. A bare number means seconds.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a duration such as `90`, `90s`, `5m` or `1h30m`";
    const LONGEST: f64 = 100.0 * 365.0 * 86_400.0;

    let mut seconds = 0.0;
    let mut smallest = f64::INFINITY;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| EXPECTED.to_owned())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            // `1h30` is refused: nobody can tell whether it means minutes or seconds.
            "" if smallest.is_infinite() => 1.0,
            _ => return Err(EXPECTED.to_owned()),
        };
        if unit >= smallest {
            return Err(EXPECTED.to_owned());
        }
        smallest = unit;
        seconds += number * unit;
        rest = &rest[letters..];
    }
    if smallest.is_infinite() {
        return Err(EXPECTED.to_owned());
    }
    if seconds > LONGEST {
        return Err("expected a duration of at most a hundred years".to_owned());
    }
    let duration = Duration::from_secs_f64(seconds);
    if duration < Duration::from_millis(1) {
        return Err("expected a duration of more than 0".to_owned());
    }
    Ok(duration)
}

/// A pattern for the JSON Schema that accepts what [`read_duration`] accepts, and also what is far too short or too
/// long, which a pattern cannot tell.
pub const DURATION_PATTERN: &str = r"^(?=.*[1-9])((\d+\.?\d*|\.\d+)|((\d+\.?\d*|\.\d+)d)?((\d+\.?\d*|\.\d+)h)?((\d+\.?\d*|\.\d+)m)?((\d+\.?\d*|\.\d+)s)?((\d+\.?\d*|\.\d+)ms)?)$";

/// Prints a measured time: `45.2s`, `2m16s`, `1h03m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let tenths = (self.0.as_secs_f64() * 10.0).round() / 10.0;
        let seconds = self.0.as_secs_f64().round() as u64;
        if tenths < 60.0 {
            write!(f, "{tenths:.1}s")
        } else if seconds < 3_600 {
            write!(f, "{}m{:02}s", seconds / 60, seconds % 60)
        } else {
            write!(f, "{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60)
        }
    }
}

/// Prints a configured time exactly, in a form that can be read again: `5s`, `1h30m`, `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exactly(pub Duration);

impl fmt::Display for Exactly {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let seconds = self.0.as_secs();
        for (count, unit) in [
            (seconds / 3_600, "h"),
            (seconds % 3_600 / 60, "m"),
            (seconds % 60, "s"),
            (self.0.subsec_millis().into(), "ms"),
        ] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

/// Reads `10485760`, `512KB`, `10MB`, `10MiB`, `1GB`. `MB` means 2^20 here, as in the first specification of rooda.
pub fn read_size(text: &str) -> Result<usize, String> {
    const EXPECTED: &str = "expected a size such as `10485760`, `512KB` or `10MB`";

    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: usize = text[..digits].parse().map_err(|_| EXPECTED.to_owned())?;
    let unit = match &text[digits..] {
        "" | "B" => 1,
        "KB" | "KiB" => 1 << 10,
        "MB" | "MiB" => 1 << 20,
        "GB" | "GiB" => 1 << 30,
        _ => return Err(EXPECTED.to_owned()),
    };
    match number.checked_mul(unit) {
        Some(0) => Err("expected a size of at least 1 byte".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(EXPECTED.to_owned()),
    }
}

/// A pattern for the JSON Schema that accepts what [`read_size`] accepts.
pub const SIZE_PATTERN: &str = r"^0*[1-9]\d*(B|KB|KiB|MB|MiB|GB|GiB)?$";

/// Prints `10MB`, `512KB`, `1000 bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (unit, name) in [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{} bytes", Grouped(self.0))
    }
}

/// Prints `$0.0143`, `$1.25`, `$1,250.00`.
#[derive(Debug, Clone, Copy)]
pub struct Cost(pub f64);

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "${}", Amount(self.0))
    }
}

/// Prints `0.0143`, `1.25`, `1,250.00`: small amounts with more decimals.
#[derive(Debug, Clone, Copy)]
pub struct Amount(pub f64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0 < 1.0 {
            write!(f, "{:.4}", self.0)
        } else {
            let cents = (self.0 * 100.0).round() as u64;
            write!(f, "{}.{:02}", Grouped(cents / 100), cents % 100)
        }
    }
}

/// Prints `12,450`.
#[derive(Debug, Clone, Copy)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Prints `1 iteration`, `2 iterations`, `2 processes`.
#[derive(Debug, Clone, Copy)]
pub struct Count<'a>(pub u64, pub &'a str);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Count(number, noun) = self;
        let ending = match number {
            1 => "",
            _ if noun.ends_with('s') => "es",
            _ => "s",
        };
        write!(f, "{number} {noun}{ending}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_written() {
        for (text, milliseconds) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("0.5", 500),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                read_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_that_could_be_misread_are_refused() {
        for text in [
            "", "0", "0s", "1h30", "30m1h", "5 m", "-5", "5x", "m", "1e3", "..", "inf",
        ] {
            assert!(read_duration(text).is_err(), "{text}");
        }
        assert!(read_duration("0").is_err_and(|e| e.contains("more than 0")));
        assert!(
            read_duration("99999999999h").is_err_and(|e| e.contains("at most a hundred years"))
        );
    }

    #[test]
    fn elapsed_prints_as_in_the_examples() {
        for (seconds, text) in [
            (0.0, "0.0s"),
            (45.2, "45.2s"),
            (59.94, "59.9s"),
            (59.96, "1m00s"),
            (136.0, "2m16s"),
            (3599.6, "1h00m"),
            (3780.0, "1h03m"),
            (100_000.0, "27h46m"),
        ] {
            let shown = Elapsed(Duration::from_secs_f64(seconds)).to_string();
            assert_eq!(shown, text, "{seconds}");
        }
    }

    #[test]
    fn exact_durations_can_be_read_again() {
        for text in ["5s", "1h30m", "250ms", "1m30s", "24h"] {
            let duration = read_duration(text);
            assert_eq!(
                duration.map(|d| Exactly(d).to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn sizes_read_and_print() {
        assert_eq!(read_size("10485760"), Ok(10 << 20));
        assert_eq!(read_size("10MB"), Ok(10 << 20));
        assert_eq!(read_size("10MiB"), Ok(10 << 20));
        for text in [
            "",
            "0",
            "0MB",
            "MB",
            "10 MB",
            "1.5MB",
            "10mb",
            "99999999999GB",
        ] {
            assert!(read_size(text).is_err(), "{text}");
        }
        assert_eq!(Size(10 << 20).to_string(), "10MB");
        assert_eq!(Size(12_450).to_string(), "12,450 bytes");
        assert_eq!(Size(1_048_577).to_string(), "1,048,577 bytes");
    }
}
