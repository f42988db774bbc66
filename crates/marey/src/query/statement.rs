//! Detects the end of an SQL statement, so that the prompt knows when to run it.

/// Whether a text ends with a `;` that is neither in quotes nor in a comment.
pub(super) fn is_complete(sql: &str) -> bool {
    let mut remaining = sql;
    let mut is_ended = false;
    while let Some(first) = remaining.chars().next() {
        let end = match first {
            '\'' | '"' => offset_after(remaining, 1, first.encode_utf8(&mut [0; 4])),
            '-' if remaining.starts_with("--") => {
                offset_after(remaining, 2, "\n").or(Some(remaining.len()))
            }
            '/' if remaining.starts_with("/*") => offset_after(remaining, 2, "*/"),
            _ => Some(first.len_utf8()),
        };
        let Some(end) = end else { return false };
        let is_comment = remaining.starts_with("--") || remaining.starts_with("/*");
        if !first.is_whitespace() && !is_comment {
            is_ended = first == ';';
        }
        remaining = &remaining[end..];
    }
    is_ended
}

/// Returns the offset after the first `end` in the text after its first `skipped` bytes.
fn offset_after(text: &str, skipped: usize, end: &str) -> Option<usize> {
    text[skipped..].find(end).map(|offset| skipped + offset + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_outside_of_quotes_and_comments() {
        for sql in [
            "SELECT 1;",
            "SELECT 'a''b';  ",
            "SELECT \"a;b\" FROM t;\n",
            "SELECT 1; -- that's all",
            "SELECT 1 /* ' */;",
            "SELECT 'é';",
            ";",
        ] {
            assert!(is_complete(sql), "{sql}");
        }
        for sql in [
            "",
            "SELECT 1",
            "SELECT 'a;",
            "SELECT 'a'';",
            "SELECT \"a;",
            "SELECT 1 -- ;",
            "SELECT 1 /* ;",
            "SELECT 1; SELECT",
            "SELECT 1;'",
        ] {
            assert!(!is_complete(sql), "{sql}");
        }
    }
}
