//! Parses instructions: the operation, the memory space and the width of an access.

use super::{Operation, Space, Width};

/// The properties of an access that do not depend on its location.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Instruction {
    pub(super) operation: Operation,
    pub(super) name: &'static str,
    pub(super) space: Option<Space>,
    pub(super) source_space: Option<Space>,
    pub(super) width: Width,
}

/// The rule that tells the memory space of an instruction.
#[derive(Clone, Copy)]
enum SpaceRule {
    /// By a modifier, or else by the address.
    Modifier,
    /// By two modifiers, for destination and source. Without them the instruction is a barrier.
    SourceAndTarget,
    /// By the instruction alone.
    Fixed(Option<Space>, Option<Space>),
}

/// The rule that tells the width of an instruction.
#[derive(Clone, Copy)]
enum WidthRule {
    /// By the modifiers for vector and type.
    Vector,
    /// By the third operand, in bytes.
    Operand,
    /// By the modifiers for shape and types.
    Tile,
    Unknown,
}

struct InstructionRule {
    name: &'static str,
    operation: Operation,
    space: SpaceRule,
    width: WidthRule,
}

const fn rule(
    name: &'static str,
    operation: Operation,
    space: SpaceRule,
    width: WidthRule,
) -> InstructionRule {
    InstructionRule { name, operation, space, width }
}

const TENSOR: SpaceRule = SpaceRule::Fixed(Some(Space::Tensor), None);
const TEXTURE: SpaceRule = SpaceRule::Fixed(Some(Space::Texture), None);
const SURFACE: SpaceRule = SpaceRule::Fixed(Some(Space::Surface), None);

/// The instructions that are counted. If several match, the one with the longest name applies.
#[rustfmt::skip]
const RULES: &[InstructionRule] = {
    use Operation::{Atomic, Copy, Load, Mma, Prefetch, Reduce, Store};
    use SpaceRule::{SourceAndTarget, Fixed, Modifier};
    use WidthRule::{Operand, Tile, Unknown, Vector};
    &[
        rule("ld", Load, Modifier, Vector),
        rule("ldu", Load, Modifier, Vector),
        rule("st", Store, Modifier, Vector),
        rule("st.async", Store, Modifier, Vector),
        rule("st.bulk", Store, Modifier, Unknown),
        rule("atom", Atomic, Modifier, Vector),
        rule("red", Reduce, Modifier, Vector),
        rule("red.async", Reduce, Modifier, Vector),
        rule("multimem.ld_reduce", Load, Modifier, Vector),
        rule("multimem.st", Store, Modifier, Vector),
        rule("multimem.red", Reduce, Modifier, Vector),
        rule("ldmatrix", Load, Modifier, Tile),
        rule("stmatrix", Store, Modifier, Tile),
        rule("wmma.load", Load, Modifier, Tile),
        rule("wmma.store", Store, Modifier, Tile),
        rule("tcgen05.ld", Load, TENSOR, Tile),
        rule("tcgen05.st", Store, TENSOR, Tile),
        rule("cp.async", Copy, SourceAndTarget, Operand),
        rule("cp.async.bulk", Copy, SourceAndTarget, Operand),
        rule("cp.async.bulk.tensor", Copy, SourceAndTarget, Tile),
        rule("cp.reduce.async.bulk", Reduce, SourceAndTarget, Operand),
        rule("cp.reduce.async.bulk.tensor", Reduce, SourceAndTarget, Tile),
        rule("multimem.cp.async.bulk", Copy, SourceAndTarget, Operand),
        rule("multimem.cp.reduce.async.bulk", Reduce, SourceAndTarget, Operand),
        rule("tcgen05.cp", Copy, Fixed(Some(Space::Tensor), Some(Space::Shared)), Tile),
        rule("prefetch", Prefetch, Modifier, Unknown),
        rule("prefetchu", Prefetch, Modifier, Unknown),
        rule("cp.async.bulk.prefetch", Prefetch, Modifier, Unknown),
        rule("cp.async.bulk.prefetch.tensor", Prefetch, Modifier, Tile),
        rule("mma", Mma, Fixed(None, None), Tile),
        rule("wmma.mma", Mma, Fixed(None, None), Tile),
        rule("wgmma.mma_async", Mma, Fixed(Some(Space::Shared), None), Tile),
        rule("tcgen05.mma", Mma, TENSOR, Tile),
        rule("tex", Load, TEXTURE, Unknown),
        rule("tld4", Load, TEXTURE, Unknown),
        rule("suld", Load, SURFACE, Unknown),
        rule("sust", Store, SURFACE, Unknown),
        rule("sured", Reduce, SURFACE, Unknown),
    ]
};

/// The registers that have the address of the thread's stack in code of LLVM.
const STACK_POINTERS: [&str; 2] = ["%SP", "%SPL"];

impl Instruction {
    /// Parses a statement. Returns `None` if it is no access that is counted.
    pub(super) fn parse(statement: &str) -> Option<Self> {
        let (opcode, operands) = split_statement(statement);
        let rule =
            RULES.iter().filter(|rule| rule.matches(opcode)).max_by_key(|rule| rule.name.len())?;
        let modifiers = opcode[rule.name.len()..].split('.');
        let mut modifier_spaces = modifiers.clone().filter_map(SpaceModifier::parse);
        let (space, source_space) = match (rule.space, modifier_spaces.next()) {
            (SpaceRule::Fixed(space, source_space), _) => (space, source_space),
            (_, Some(SpaceModifier::Parameter)) | (SpaceRule::SourceAndTarget, None) => {
                return None;
            }
            (SpaceRule::Modifier, None) => (Some(address_space(operands)), None),
            (SpaceRule::Modifier, Some(SpaceModifier::Space(space))) => (Some(space), None),
            (SpaceRule::SourceAndTarget, Some(SpaceModifier::Space(to))) => {
                match modifier_spaces.next()? {
                    SpaceModifier::Space(from) => (Some(to), Some(from)),
                    SpaceModifier::Parameter => return None,
                }
            }
        };
        let width = match rule.width {
            WidthRule::Vector => vector_width(modifiers),
            WidthRule::Operand => operand_width(operands),
            WidthRule::Tile => tile_width(modifiers),
            WidthRule::Unknown => Width::Unknown,
        };
        Some(Self { operation: rule.operation, name: rule.name, space, source_space, width })
    }
}

impl InstructionRule {
    fn matches(&self, opcode: &str) -> bool {
        opcode.strip_prefix(self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Splits a statement into the opcode with its modifiers, and the operands. Skips labels and a
/// predicate.
fn split_statement(mut statement: &str) -> (&str, &str) {
    while let Some((label, rest)) = statement.split_once(':') {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
        if rest.starts_with(':') || !label.trim().chars().all(is_name) {
            break;
        }
        statement = rest;
    }
    let statement = statement.trim_start();
    let statement = match statement.strip_prefix('@') {
        Some(predicated) => predicated.split_once(char::is_whitespace).unwrap_or_default().1,
        None => statement,
    };
    statement.trim_start().split_once(char::is_whitespace).unwrap_or((statement, ""))
}

/// A modifier that names a memory space.
enum SpaceModifier {
    Space(Space),
    /// Parameters of kernels and calls, which are not counted.
    Parameter,
}

impl SpaceModifier {
    fn parse(modifier: &str) -> Option<Self> {
        Some(Self::Space(match modifier {
            "global" => Space::Global,
            "shared" | "shared::cta" => Space::Shared,
            "shared::cluster" => Space::Cluster,
            "local" => Space::Local,
            "const" => Space::Constant,
            "param" | "param::entry" | "param::func" => return Some(Self::Parameter),
            _ => return None,
        }))
    }
}

/// Returns the space of an address without a modifier. LLVM's stack is recognised by its register.
fn address_space(operands: &str) -> Space {
    let address = operands.split_once('[').unwrap_or_default().1;
    let base = address.trim_start().split([']', '+', ' ']).next().unwrap_or_default();
    if STACK_POINTERS.contains(&base) { Space::Local } else { Space::Generic }
}

fn vector_width<'a>(modifiers: impl Iterator<Item = &'a str> + Clone) -> Width {
    let lanes = modifiers.clone().find_map(|word| word.strip_prefix('v')?.parse().ok());
    let bits = modifiers.filter_map(type_bits).last();
    bits.map_or(Width::Unknown, |bits| Width::Vector { lanes: lanes.unwrap_or(1), bits })
}

/// Returns the number of bits of a value type, such as `b32`, `f16x2` or `e4m3x4`.
fn type_bits(word: &str) -> Option<u16> {
    let (element, count) = match word.rsplit_once('x') {
        Some((element, count)) => (element, count.parse().ok()?),
        None => (word, 1),
    };
    let bits: u16 = match element {
        "e4m3" | "e5m2" => 8,
        "e2m3" | "e3m2" => 6,
        "e2m1" => 4,
        "tf32" => 32,
        _ => element
            .strip_prefix("bf")
            .or_else(|| element.strip_prefix(['b', 'u', 's', 'f']))?
            .parse()
            .ok()?,
    };
    bits.checked_mul(count)
}

/// Returns the third operand, if it is a number.
fn operand_width(operands: &str) -> Width {
    let size = operands.split(',').nth(2).map_or("", str::trim);
    let bytes = match size.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => size.parse(),
    };
    bytes.map_or(Width::Unknown, Width::Bytes)
}

fn tile_width<'a>(modifiers: impl Iterator<Item = &'a str>) -> Width {
    let words: Vec<_> =
        modifiers.filter(|word| is_shape(word) || type_bits(word).is_some()).collect();
    if words.is_empty() { Width::Unknown } else { Width::Tile(words.join(".")) }
}

/// Whether a modifier is a shape or count, such as `m16n8k16`, `x4`, `2d`, `16x32bx2` or
/// `kind::f16`.
fn is_shape(word: &str) -> bool {
    let begins_with_letter = |letters: &[char]| {
        word.strip_prefix(letters)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let begins_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
    begins_with_letter(&['m', 'x']) || begins_with_digit || word.starts_with("kind::")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the operation, memory space, source and width of a statement as text.
    fn summary(statement: &str) -> String {
        let Some(instruction) = Instruction::parse(statement) else { return "-".to_owned() };
        let space = instruction.space.map_or("-", Space::as_str);
        let source = instruction
            .source_space
            .map_or(String::new(), |source| format!("<{}", source.as_str()));
        format!(
            "{} {} {space}{source} {}",
            instruction.name,
            instruction.operation.as_str(),
            instruction.width
        )
    }

    const MEANINGS: &[(&str, &str)] = &[
        ("ld.global.v4.b32 {%r1, %r2}, [%rd1]", "ld LOAD GLOBAL 4x32"),
        ("@%p1 ld.global.nc.L1::no_allocate.L2::128B.v2.f64 {a, b}, [x]", "ld LOAD GLOBAL 2x64"),
        ("@!%p1\tst.shared::cta.b8\t[x], 1", "st STORE SHARED 8"),
        ("L: $M: st.shared::cluster.bf16x2 [x], 1", "st STORE CLUSTER 32"),
        ("ld.b32 %r1, [%rd1]", "ld LOAD GENERIC 32"),
        ("ld.volatile.u64 %rd1, [ %SP+8]", "ld LOAD LOCAL 64"),
        ("st.u32 [%SPL], %r1", "st STORE LOCAL 32"),
        ("ld.local.v2.b32 {a, b}, [%SPL+8]", "ld LOAD LOCAL 2x32"),
        ("ld.const.f32 %f1, [x]", "ld LOAD CONSTANT 32"),
        ("ldu.global.f32 %f1, [x]", "ldu LOAD GLOBAL 32"),
        ("ld.param.b64 %rd1, [p]", "-"),
        ("st.param::func.b64 [p], %rd1", "-"),
        ("atom.global.gpu.acq_rel.add.noftz.f16x2 %r1, [x], %r2", "atom ATOMIC GLOBAL 32"),
        ("atom.shared.cas.b128 %q1, [x], %q2, %q3", "atom ATOMIC SHARED 128"),
        ("red.relaxed.cluster.global.add.v4.f32 [x], {a, b, c, d}", "red REDUCE GLOBAL 4x32"),
        ("redux.sync.max.f32 %r1, %r2, %r3", "-"),
        ("red.async.relaxed.cluster.global.add.u64 [x], %r, [m]", "red.async REDUCE GLOBAL 64"),
        (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [x], {a}, [m]",
            "st.async STORE CLUSTER 4x32",
        ),
        ("st.bulk.weak.shared::cta [x], 4096, 0", "st.bulk STORE SHARED -"),
        ("multimem.ld_reduce.global.add.v4.bf16x2 {a}, [x]", "multimem.ld_reduce LOAD GLOBAL 4x32"),
        ("multimem.red.global.add.f32 [x], a", "multimem.red REDUCE GLOBAL 32"),
        (
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {a}, [x]",
            "ldmatrix LOAD SHARED m8n8.x4.b16",
        ),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [x], {a}", "stmatrix STORE SHARED m8n8.x2.b16"),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {a}, [x]",
            "wmma.load LOAD GLOBAL m16n16k16.f16",
        ),
        (
            "cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2",
            "cp.async COPY SHARED<GLOBAL 16 B",
        ),
        ("cp.async.ca.shared::cta.global.L2::128B [x], [y], 4", "cp.async COPY SHARED<GLOBAL 4 B"),
        ("cp.async.commit_group", "-"),
        ("cp.async.wait_group 0x1", "-"),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [m]", "-"),
        ("cp.async.bulk.commit_group", "-"),
        ("cp.async.bulk.wait_group.read 0", "-"),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [x], [y], %r1, [m]",
            "cp.async.bulk COPY CLUSTER<GLOBAL -",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [x], [y], 256",
            "cp.async.bulk COPY GLOBAL<SHARED 256 B",
        ),
        (
            "@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [x], [t, {a, b}], [m]",
            "cp.async.bulk.tensor COPY SHARED<GLOBAL 2d",
        ),
        (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [t, {a, b}], [x]",
            "cp.reduce.async.bulk.tensor REDUCE GLOBAL<SHARED 2d",
        ),
        ("cp.async.bulk.prefetch.L2.global [x], 64", "cp.async.bulk.prefetch PREFETCH GLOBAL -"),
        ("prefetch.global.L2 [x]", "prefetch PREFETCH GLOBAL -"),
        ("prefetchu.L1 [x]", "prefetchu PREFETCH GENERIC -"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {c}",
            "mma MMA - m16n8k16.f32.f16.f16.f32",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {d}, %rd1, %rd2, 1, 1",
            "wgmma.mma_async MMA SHARED m64n64k16.f32.bf16.bf16",
        ),
        ("wgmma.fence.sync.aligned", "-"),
        ("tcgen05.mma.cta_group::1.kind::f16 [d], a, b, i, p", "tcgen05.mma MMA TENSOR kind::f16"),
        (
            "tcgen05.ld.sync.aligned.16x32bx2.x32.b32 {a}, [t], 0",
            "tcgen05.ld LOAD TENSOR 16x32bx2.x32.b32",
        ),
        ("tcgen05.cp.cta_group::1.128x256b [t], d", "tcgen05.cp COPY TENSOR<SHARED 128x256b"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [m]", "-"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [x], 64", "-"),
        ("mbarrier.init.shared::cta.b64 [m], 1", "-"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [x], 1", "-"),
        ("tex.2d.v4.f32.f32 {a}, [t, {x, y}]", "tex LOAD TEXTURE -"),
        ("sust.b.2d.v4.b32 [s, {x, y}], {a}", "sust STORE SURFACE -"),
        ("mov.u32 %r1, %tid.x", "-"),
        ("ret", "-"),
    ];

    #[test]
    fn instructions_have_the_meaning_of_the_isa() {
        for (statement, meaning) in MEANINGS {
            assert_eq!(&summary(statement), meaning, "{statement}");
        }
    }

    #[test]
    fn truncated_instructions_have_no_width_or_are_ignored() {
        for statement in
            ["", "@", "@%p1", ":", "::", "l", ".", "cp.async.cg.shared", "cp", "@%p ld"]
        {
            drop(summary(statement));
        }
        assert_eq!(summary("ld"), "ld LOAD GENERIC -");
        assert_eq!(summary("ld.global.v99999.b32"), "ld LOAD GLOBAL 32");
        assert_eq!(summary("ld.global.b65535x65535 a, [b"), "ld LOAD GLOBAL -");
        assert_eq!(
            summary("cp.async.cg.shared.global [a], [b], 0xfffffffffffffffff"),
            "cp.async COPY SHARED<GLOBAL -"
        );
    }
}
