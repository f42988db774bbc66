//! The generated C program that prints sizes, offsets and constants of headers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::{Command, Output};

use super::checks::Check;
use super::headers::Headers;
use crate::XtaskError;

const HEADER_NAMES: &[&str] =
    &["cupti_activity.h", "cupti_callbacks.h", "cupti_driver_cbid.h", "cupti_runtime_cbid.h"];

/// Returns the actual value of each check; `None` if it does not compile with these headers.
pub(super) fn run(headers: &Headers, checks: &[Check]) -> Result<Vec<Option<u64>>, XtaskError> {
    run_with(headers, HEADER_NAMES, checks)
}

#[expect(clippy::disallowed_methods, reason = "the process is our own")]
pub(super) fn run_with(
    headers: &Headers,
    includes: &[&str],
    checks: &[Check],
) -> Result<Vec<Option<u64>>, XtaskError> {
    let mut missing = BTreeSet::new();
    let folder = std::env::temp_dir().join(format!(
        "marey-layout-program-{}-{}",
        std::process::id(),
        headers.api_version
    ));
    let file_error = |source| XtaskError::File { path: folder.clone(), source };
    std::fs::create_dir_all(&folder).map_err(file_error)?;
    let (source, binary) = (folder.join("program.c"), folder.join("program"));
    let compile = |missing: &BTreeSet<usize>| {
        std::fs::write(&source, program(includes, checks, missing)).map_err(file_error)?;
        let mut cc = Command::new("cc");
        cc.args(["-w", "-fmax-errors=0", "-o"]).arg(&binary).arg(&source);
        cc.args(headers.include.iter().flat_map(|path| ["-I".as_ref(), path.as_os_str()]));
        run_command("cc", &mut cc)
    };
    let mut compiled = compile(&missing)?;
    if !compiled.status.success() {
        missing = parse_rejected(&String::from_utf8_lossy(&compiled.stderr));
        compiled = compile(&missing)?;
    }
    check_success("cc", &compiled)?;
    let printed = run_command("the program", &mut Command::new(&binary))?;
    std::fs::remove_dir_all(&folder).map_err(file_error)?;
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    let mut numbers = text.lines().map(|line| line.parse().ok());
    Ok((0..checks.len())
        .map(|index| if missing.contains(&index) { None } else { numbers.next().flatten() })
        .collect())
}

/// Runs a command and waits for it.
pub(super) fn command(
    name: &str,
    add_args: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<(), XtaskError> {
    check_success(name, &run_command(name, add_args(&mut Command::new(name)))?)
}

fn run_command(name: &str, command: &mut Command) -> Result<Output, XtaskError> {
    let to_error = |error: std::io::Error| XtaskError::Command(name.to_owned(), error.to_string());
    command.env("LC_ALL", "C").output().map_err(to_error)
}

fn check_success(name: &str, output: &Output) -> Result<(), XtaskError> {
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(XtaskError::Command(name.to_owned(), errors))
}

/// Returns the source of the program. `#line` directives number the checks in compiler errors.
fn program(includes: &[&str], checks: &[Check], missing: &BTreeSet<usize>) -> String {
    let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n");
    // Writing to a string cannot fail.
    for header in includes {
        writeln!(text, "#include \"{header}\"").unwrap_or_default();
    }
    text.push_str("int main(void) {\n");
    for (index, check) in checks.iter().enumerate().filter(|(index, _)| !missing.contains(index)) {
        let Check { expression, .. } = check;
        writeln!(
            text,
            "#line {} \"{CHECK_FILE_NAME}\"\nprintf(\"%llu\\n\", (unsigned long long)({expression}));",
            index + 1
        )
        .unwrap_or_default();
    }
    text.push_str("return 0;\n}\n");
    text
}

const CHECK_FILE_NAME: &str = "check";

/// Returns the checks that the compiler rejected.
fn parse_rejected(errors: &str) -> BTreeSet<usize> {
    let number = |line: &str| {
        let (number, after_number) =
            line.strip_prefix(CHECK_FILE_NAME)?.strip_prefix(':')?.split_once(':')?;
        let line: usize = after_number.contains("error:").then(|| number.parse().ok())??;
        line.checked_sub(1)
    };
    errors.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_checks_are_parsed_from_compiler_errors() {
        let errors = "check: In function 'main':\ncheck:7:45: error: 'A' undeclared\ncheck:9:1: note: so\nother.h:3:1: error: no\n";
        assert_eq!(parse_rejected(errors), BTreeSet::from([6]));
    }
}
