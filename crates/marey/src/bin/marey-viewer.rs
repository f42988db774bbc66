//! The binary `marey-viewer`: `marey view` under a second name, for users of `proton-viewer`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = marey::cli::viewer(std::env::args_os());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
