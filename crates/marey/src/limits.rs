//! Finds the resource limits of queries: from `--memory-limit` and `--threads`, else the
//! environment, else the defaults.

use marey_model::env;
use marey_query::sql::Limits;

use crate::output::Failure;

/// Returns the limits of queries. The caller passes `None` for a limit that it does not set.
pub fn limits(memory_bytes: Option<usize>, threads: Option<usize>) -> Result<Limits, Failure> {
    let default = Limits::default();
    let memory_bytes = match memory_bytes {
        Some(bytes) => bytes,
        None => memory_limit_from_environment()?.unwrap_or(default.memory_bytes),
    };
    Ok(Limits { memory_bytes, threads: threads.unwrap_or(default.threads), ..default })
}

#[expect(clippy::disallowed_methods, reason = "the process is our own, or Python holds the GIL")]
fn memory_limit_from_environment() -> Result<Option<usize>, Failure> {
    let text = std::env::var(env::MEMORY_LIMIT).ok().filter(|text| !text.is_empty());
    let bytes = text.map(|text| parse_size(&text)).transpose();
    bytes
        .map_err(|reason| Failure::new(format!("invalid value of {}: {reason}", env::MEMORY_LIMIT)))
}

/// Parses a number of bytes, with or without a unit.
pub(crate) fn parse_size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, u32); 5] = [("", 0), ("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let shift = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let bytes = digits.parse::<usize>().ok().zip(shift);
    let bytes = bytes.and_then(|(number, (_, shift))| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("expected a size such as `2GiB`, `512MiB` or `100000`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in
            [("1", 1), ("10B", 10), ("3KiB", 3072), ("512mib", 512 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "0", "-1", "1.5GiB", "2GB", "2 GiB", "99999999999GiB", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
