//! Reads a PTX text, and counts the statements that are accesses.

use std::collections::HashMap;
use std::io::BufRead;
use std::mem;

use super::instruction::Instruction;
use super::locations::{FrameId, Locations};
use super::statements::{Statements, TextPart};
use super::{Access, Function, Module, PtxError};

/// LLVM's comments around the text of an `asm`.
const ASM_BEGIN_COMMENT: &str = "begin inline asm";
const ASM_END_COMMENT: &str = "end inline asm";

/// Reads a PTX text part by part, so that it is never in memory as a whole.
pub fn read(source: impl BufRead) -> Result<Module, PtxError> {
    let mut statements = Statements::new();
    let mut reader = Reader::default();
    statements.read(source, |part| reader.handle_part(&part))?;
    reader.finish(statements.line_count)
}

/// The state of the reader.
#[derive(Default)]
struct Reader {
    has_version: bool,
    target: Option<String>,
    locations: Locations,
    functions: Vec<FunctionCounts>,
    /// Number of open blocks.
    depth: usize,
    /// Whether the outermost open block belongs to the last function.
    is_in_function: bool,
    location: Option<FrameId>,
    is_in_asm: bool,
}

/// The instructions of a function.
struct FunctionCounts {
    name: String,
    is_kernel: bool,
    /// Accesses with their counts, in the order of first instructions.
    counts: Vec<(AccessKey, u64)>,
    count_indexes: HashMap<AccessKey, usize>,
}

/// An instruction and its location. Instructions with equal keys are counted together.
type AccessKey = (Instruction, Option<FrameId>);

impl Reader {
    fn handle_part(&mut self, part: &TextPart<'_>) -> Result<(), PtxError> {
        match part {
            TextPart::Line { text, comment } => self.handle_line(text, comment)?,
            TextPart::Comment(text) => match text.trim() {
                ASM_BEGIN_COMMENT => self.is_in_asm = true,
                ASM_END_COMMENT => self.is_in_asm = false,
                _ => {}
            },
            TextPart::Statement(text) => {
                if self.is_in_function
                    && let Some(instruction) = Instruction::parse(text)
                    && let Some(function) = self.functions.last_mut()
                {
                    function.count_access((instruction, self.location));
                }
            }
            TextPart::Open(before) => {
                if self.depth == 0
                    && let Some(function) = FunctionCounts::parse_head(before)
                {
                    self.functions.push(function);
                    self.is_in_function = true;
                    self.is_in_asm = false;
                    self.location = None;
                }
                self.depth += 1;
            }
            TextPart::Close => {
                self.depth = self.depth.saturating_sub(1);
                self.is_in_function &= self.depth > 0;
            }
        }
        Ok(())
    }

    fn handle_line(&mut self, text: &str, comment: &str) -> Result<(), PtxError> {
        let (directive, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match directive {
            ".amdgcn_target" => return Err(PtxError::Amd),
            ".version" => self.has_version = true,
            ".target" => {
                let name = operands.split(',').next().map_or("", str::trim);
                self.target = Some(name.to_owned());
            }
            ".file" => self.locations.add_file(text),
            // Inside an `asm` block, newer LLVM counts lines from the line of the `asm`. These are
            // no source lines, so they are ignored.
            ".loc" if !self.is_in_asm => self.location = self.locations.add_location(text, comment),
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, line_count: u64) -> Result<Module, PtxError> {
        let target = self.target.take().filter(|_| self.has_version).ok_or(PtxError::NotPtx)?;
        if self.is_in_function {
            let function = self.functions.pop().map(|function| function.name).unwrap_or_default();
            return Err(PtxError::Truncated { function, line: line_count });
        }
        let functions = mem::take(&mut self.functions);
        let functions =
            functions.into_iter().map(|counts| counts.resolve(&self.locations)).collect();
        Ok(Module { target, functions })
    }
}

impl FunctionCounts {
    /// Parses the head of a function: `.visible .entry NAME(…)`, `.func (…) NAME (…)`.
    fn parse_head(head: &str) -> Option<Self> {
        let (is_kernel, after_keyword) = match head.split_once(".entry") {
            Some((_, after_keyword)) => (true, after_keyword),
            None => (false, head.split_once(".func")?.1),
        };
        let after_keyword = after_keyword.trim_start();
        // Return values precede the name.
        let after_keyword = after_keyword.strip_prefix('(').map_or(after_keyword, |returned| {
            returned.split_once(')').unwrap_or_default().1.trim_start()
        });
        let end = after_keyword
            .find(|c: char| c == '(' || c.is_whitespace())
            .unwrap_or(after_keyword.len());
        let name = after_keyword[..end].to_owned();
        Some(Self { name, is_kernel, counts: Vec::new(), count_indexes: HashMap::new() })
    }

    fn count_access(&mut self, key: AccessKey) {
        let next_index = self.counts.len();
        let index = *self.count_indexes.entry(key).or_insert_with_key(|key| {
            self.counts.push((key.clone(), 0));
            next_index
        });
        self.counts[index].1 += 1;
    }

    fn resolve(self, locations: &Locations) -> Function {
        let mut locations_by_frame = HashMap::new();
        let accesses = self.counts.into_iter().map(|((instruction, location), count)| Access {
            operation: instruction.operation,
            instruction: instruction.name,
            space: instruction.space,
            source: instruction.source_space,
            width: instruction.width,
            locations: location.map_or_else(Default::default, |id| {
                locations_by_frame.entry(id).or_insert_with(|| locations.resolve(id)).clone()
            }),
            count,
        });
        let accesses = accesses.collect();
        Function { name: self.name, is_kernel: self.is_kernel, accesses }
    }
}
