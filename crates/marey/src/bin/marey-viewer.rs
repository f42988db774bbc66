//! The binary `marey-viewer`: `marey view`, under a name like `proton-viewer`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = marey::cli::viewer(std::env::args_os());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
