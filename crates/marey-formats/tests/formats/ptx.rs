//! PTX written by Triton, and hostile PTX.
//!
//! The kernels are those of `tests/support/mem_space_kernels.py`.

mod any_file;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use marey_formats::ptx::{Function, Module, PtxError, Space, read};
use proptest::prelude::*;

fn data(folder: &str, suffix: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.to_str().is_some_and(|path| path.ends_with(suffix))).collect();
    files.sort();
    files
}

/// Returns a line for each access.
fn dump(module: &Module) -> String {
    let mut dump = String::new();
    for Function { name, is_kernel, accesses } in &module.functions {
        let kind = if *is_kernel { "kernel" } else { "function" };
        writeln!(dump, "{kind} {name} {}", module.target).unwrap();
        for access in accesses {
            let locations: Vec<_> = access.locations.iter().map(ToString::to_string).collect();
            let space = access.space.map_or("-", Space::as_str);
            let source = access.source.map_or(String::new(), |from| format!("{}>", from.as_str()));
            writeln!(
                dump,
                "  {} {source}{space} {} {} x{} {}",
                locations.join(" < "),
                access.operation.as_str(),
                access.width,
                access.count,
                access.instruction,
            )
            .unwrap();
        }
    }
    dump
}

#[test]
fn golden_files_have_the_expected_content() {
    let files = data("tests/data/ptx", ".ptx");
    assert!(files.len() >= 9);
    for file in files {
        let golden = file.with_extension("txt");
        let dumped = dump(&read(&*fs::read(&file).unwrap()).unwrap());
        let golden = fs::read_to_string(golden).unwrap_or_default();
        assert_eq!(dumped, golden, "{} reads as:\n{dumped}", file.display());
    }
}

/// Returns a kernel with these lines.
fn kernel(lines: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a, debug\n.visible .entry k(\n.param .u64 a\n)\n.reqntid 128\n{{\n{lines}\n}}\n.file 1 \"k.py\"\n"
    )
}

fn dump_of(lines: &str) -> String {
    let module = read(kernel(lines).as_bytes()).unwrap();
    let dump = dump(&module);
    dump.strip_prefix("kernel k sm_90a\n").unwrap().to_owned()
}

#[test]
fn instructions_in_an_asm_belong_to_its_line() {
    let inside = "
.loc 1 4 9
// begin inline asm
.loc 1 4 9
mov.u32 %r1, 0;
.loc 1 5 9
ld.global.b32 {%r1}, [%rd1];
// end inline asm
st.global.b32 [%rd2], %r1;
.loc 1 6 1
ret;";
    assert_eq!(
        dump_of(inside),
        "  k.py:4:9 GLOBAL LOAD 32 x1 ld\n  k.py:4:9 GLOBAL STORE 32 x1 st\n"
    );
}

#[test]
fn statements_may_span_lines_and_share_them() {
    let lines = "
{ // callseq
.reg .b32 t; ld.shared.b32 t, [x]; st.param.b32 [p], t;
call f, (p);
}
$L1: @%p1
ld.shared.b32
  %r1, // one of four
  [x]; ld.shared.b32 %r2, [x]; /* ld.shared.b32 %r3, [x]; */
{ { ld.shared.b32 %r4, [x] } }";
    assert_eq!(dump_of(lines), "   SHARED LOAD 32 x4 ld\n");
}

#[test]
fn code_outside_of_functions_is_not_counted() {
    let text =
        kernel("ret;") + ".section .x\n{\nld.global.b32 %r1, [x];\n}\nld.global.b32 %r1, [x];";
    assert_eq!(dump(&read(text.as_bytes()).unwrap()), "kernel k sm_90a\n");
    let declared = ".version 8.7\n.target sm_90\n.extern .func (.param .b32 r) f\n(.param .b64 a)\n;\n\
        .func (.param .b32 r) g(.param .b64 a)\n{ ld.b32 r, [a]; }";
    assert_eq!(
        dump(&read(declared.as_bytes()).unwrap()),
        "function g sm_90\n   GENERIC LOAD 32 x1 ld\n"
    );
}

/// A file whose reads fail.
struct Broken;

impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk is gone"))
    }
}

#[test]
fn errors_name_the_cause() {
    let cut = kernel("ret;");
    for (text, message) in [
        ("", "it is not PTX: `.version` or `.target` is missing"),
        ("\0\x7fELF\n\u{fffd}", "it is not PTX: `.version` or `.target` is missing"),
        ("define void @f() {\n ret void\n}", "it is not PTX: `.version` or `.target` is missing"),
        (
            "\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n.text",
            "it is AMD assembly (`.amdgcn_target`); only PTX is read",
        ),
        (&cut[..cut.find("ret").unwrap()], "it ends in line 8, inside `k`"),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), message, "{text:?}");
    }
    let error = read(std::io::BufReader::new(Broken)).unwrap_err();
    assert!(matches!(error, PtxError::Io(_)) && error.to_string().ends_with("the disk is gone"));
}

#[test]
fn every_corpus_file_is_read_or_refused() {
    for file in data("../../fuzz/corpus/ptx", "") {
        any_file::check_any_file(&fs::read(file).unwrap());
    }
}

#[test]
fn hostile_files_take_linear_time() {
    let deep = "{".repeat(1 << 18);
    let closed = "}".repeat(1 << 18);
    let (mut inlined, mut files, mut named) = (String::new(), String::new(), String::new());
    for line in 0..30_000 {
        writeln!(inlined, ".loc 1 {} 1, inlined_at 1 {line} 1\nld x;", line + 1).unwrap();
        writeln!(files, ".file {line} \"/{line}/k.py\"").unwrap();
        writeln!(named, ".loc 1 {line} 1 // k.py:1:1 @[ k.py:{line}:1 ]\nld x;").unwrap();
    }
    let long = format!("ld.global.b32 {};", "x".repeat(1 << 20));
    let braces = format!(".x {}", "{}".repeat(1 << 18));
    for lines in [&braces, &deep, &closed, &inlined, &named, &long] {
        any_file::check_any_file((kernel(lines) + &files).as_bytes());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(content: Vec<u8>) {
        any_file::check_any_file(&content);
    }

    #[test]
    fn any_lines_of_ptx_are_read_or_refused(lines in prop::collection::vec(
        prop::sample::select(vec![
            "{", "}", "ld.global.b32 %r1, [x];", "mov {%r1, %r2}, %r3;", "\"", "/*", "*/", "//", ";",
            ".loc 1 1 1", ".loc 1 1 1, inlined_at 1 1 1", ".loc 1 2 1 // a:1 @[ b:2:3 @[", "L:",
            ".visible .entry", ".func (", "// begin inline asm", ".file 1 \"a\"", "@%p1", "::",
        ]),
        0..40,
    )) {
        any_file::check_any_file(kernel(&lines.join("\n")).as_bytes());
    }
}
