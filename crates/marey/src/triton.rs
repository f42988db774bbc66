//! `marey triton`: inspects the files that Triton's compiler has written.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand, ValueHint};
use marey_formats::ptx::{
    self, Access, Function, Module, Operation, PtxError, SourceLocation, Space,
};
use serde::Serialize;

use crate::aligned::{Align, TextLayout, write_rows};
use crate::output::{self, CommandError, Failure, Output};
use crate::text::{printable, quote_path};

const EXAMPLES: &str = "\
Examples:
  marey triton mem-spaces ~/.triton/cache     Inspect every kernel in Triton's cache
  marey triton mem-spaces matmul.ptx --json   Inspect one file, for programs
  marey run -i print-mem-spaces train.py      Inspect the kernels of a program when it ends

Counts are static: each instruction of the code counts once, however often it runs.";

/// The argument that means stdin.
const STDIN: &str = "-";

const HEADING: [&str; 9] =
    ["#", "kernel", "place", "space", "operation", "width", "count", "instruction", "inlined at"];

/// Arguments of `marey triton`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TritonArgs {
    #[command(subcommand)]
    command: TritonCommand,
}

#[derive(Subcommand)]
enum TritonCommand {
    /// Show the memory accesses of kernels by source line
    MemSpaces(MemSpacesArgs),
}

/// Arguments of `marey triton mem-spaces`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
struct MemSpacesArgs {
    /// PTX files, folders to search for them, or `-` for stdin
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,

    /// Print a JSON array with an element for each file
    #[arg(long)]
    json: bool,
}

/// Runs `marey triton`.
pub(crate) fn triton(args: &TritonArgs, output: &mut Output) -> Result<(), CommandError> {
    match &args.command {
        TritonCommand::MemSpaces(args) => mem_spaces(args, output),
    }
}

/// Shows all files in one table. A file that cannot be read does not stop the others.
fn mem_spaces(args: &MemSpacesArgs, output: &mut Output) -> Result<(), CommandError> {
    let mut modules = Vec::new();
    for path in &args.files {
        match find_ptx_files(path) {
            Err(failure) => output.error(&failure)?,
            Ok(files) => {
                for file in files {
                    match read_module(&file) {
                        Ok(module) => modules.push((file, module)),
                        Err(error) => output.error(&unreadable(&file, &error))?,
                    }
                }
            }
        }
    }
    if args.json {
        write_json(output.data(), &modules)?;
    } else if !modules.is_empty() {
        write_table(&modules, output)?;
    }
    Ok(())
}

/// Returns the files of an argument. Those of a folder are sorted by modification time.
fn find_ptx_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path == Path::new(STDIN) || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut contents = FolderContents::default();
    contents
        .walk(path)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", quote_path(path))))?;
    if contents.ptx.is_empty() {
        let (problem, hint) = if contents.has_amd {
            ("contains no .ptx files, only AMD assembly (.amdgcn), which is not supported", None)
        } else {
            let hint = "Triton writes them to ~/.triton/cache or TRITON_CACHE_DIR, unless \
                        TRITON_STORE_BINARY_ONLY is set";
            ("contains no .ptx files", Some(hint.to_owned()))
        };
        return Err(Failure { message: format!("{} {problem}", quote_path(path)), hint });
    }
    contents.ptx.sort_unstable();
    Ok(contents.ptx.into_iter().map(|(_, path)| path).collect())
}

/// The relevant files of a folder.
#[derive(Default)]
struct FolderContents {
    ptx: Vec<(SystemTime, PathBuf)>,
    has_amd: bool,
}

impl FolderContents {
    fn walk(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // Links are not followed, because they may lead back to this folder.
            if entry.file_type()?.is_dir() {
                self.walk(&entry.path())?;
                continue;
            }
            let path = entry.path();
            match path.extension().and_then(|suffix| suffix.to_str()) {
                Some("ptx") => self.ptx.push((entry.metadata()?.modified()?, path)),
                Some("amdgcn") => self.has_amd = true,
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_module(file: &Path) -> Result<Module, PtxError> {
    if file == Path::new(STDIN) {
        return ptx::read(io::stdin().lock());
    }
    ptx::read(BufReader::new(File::open(file)?))
}

fn unreadable(file: &Path, error: &PtxError) -> Failure {
    Failure::new(printable(&format!("{}: {error}", quote_path(file))).into_owned())
}

fn write_table(modules: &[(PathBuf, Module)], output: &mut Output) -> io::Result<()> {
    use Align::{Left, Right};
    let functions = modules.iter().flat_map(|(_, module)| &module.functions);
    let rows: Vec<_> = functions.clone().flat_map(function_rows).collect();
    let aligns = [Right, Left, Left, Left, Left, Right, Right, Left, Left];
    let layout = TextLayout { paint: output.paint, max_width: output.terminal_width() };
    write_rows(&HEADING.map(str::to_owned), &rows, &aligns, layout, output.data())?;
    if functions.flat_map(|function| &function.accesses).any(|access| access.locations.is_empty()) {
        output.note("no source lines for kernels compiled with TRITON_DISABLE_LINE_INFO=1")?;
    }
    Ok(())
}

/// Returns the rows of a function, numbered from 0.
fn function_rows(function: &Function) -> impl Iterator<Item = Vec<String>> {
    function.accesses.iter().enumerate().map(|(number, access)| {
        let locations: Vec<_> = access.locations.iter().map(short_location).collect();
        let (location, calls) = locations
            .split_first()
            .map_or(("-", &[][..]), |(location, calls)| (location.as_str(), calls));
        vec![
            number.to_string(),
            printable(&function.name).into_owned(),
            location.to_owned(),
            format_spaces(access),
            access.operation.as_str().to_owned(),
            access.width.to_string(),
            access.count.to_string(),
            access.instruction.to_owned(),
            calls.join(" < "),
        ]
    })
}

/// Formats a source location without the folder.
fn short_location(location: &SourceLocation) -> String {
    let name = location.file.rsplit('/').next().unwrap_or(&location.file);
    format!("{}:{}:{}", printable(name), location.line, location.column)
}

/// Formats the memory space of an access, or the source and the destination of a copy.
fn format_spaces(access: &Access) -> String {
    let space = access.space.map_or("-", Space::as_str);
    access.source.map_or(space.to_owned(), |source| format!("{}>{space}", source.as_str()))
}

fn write_json(out: &mut impl Write, modules: &[(PathBuf, Module)]) -> io::Result<()> {
    let modules: Vec<_> =
        modules.iter().map(|(file, module)| ModuleJson::new(file, module)).collect();
    output::write_json(out, &modules)
}

#[derive(Serialize)]
struct ModuleJson<'a> {
    file: String,
    target: &'a str,
    functions: Vec<FunctionJson<'a>>,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    name: &'a str,
    is_kernel: bool,
    accesses: Vec<AccessJson<'a>>,
}

#[derive(Serialize)]
struct AccessJson<'a> {
    operation: &'static str,
    instruction: &'static str,
    space: Option<&'static str>,
    source: Option<&'static str>,
    width: String,
    thread_bits: Option<u64>,
    count: u64,
    places: Vec<PlaceJson<'a>>,
}

#[derive(Serialize)]
struct PlaceJson<'a> {
    file: &'a str,
    line: u32,
    column: u32,
}

impl<'a> ModuleJson<'a> {
    fn new(file: &Path, module: &'a Module) -> Self {
        let functions = module.functions.iter().map(|function| FunctionJson {
            name: &function.name,
            is_kernel: function.is_kernel,
            accesses: function.accesses.iter().map(AccessJson::new).collect(),
        });
        Self {
            file: file.to_string_lossy().into_owned(),
            target: &module.target,
            functions: functions.collect(),
        }
    }
}

impl<'a> AccessJson<'a> {
    fn new(access: &'a Access) -> Self {
        let location = |location: &'a SourceLocation| PlaceJson {
            file: &location.file,
            line: location.line,
            column: location.column,
        };
        Self {
            operation: Operation::as_str(access.operation),
            instruction: access.instruction,
            space: access.space.map(Space::as_str),
            source: access.source.map(Space::as_str),
            width: access.width.to_string(),
            thread_bits: access.width.thread_bits(),
            count: access.count,
            places: access.locations.iter().map(location).collect(),
        }
    }
}
