//! What an instruction does, from its text.

use super::{Operation, Space, Width};

/// What of an access does not depend on where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Instruction {
    pub(super) operation: Operation,
    pub(super) name: &'static str,
    pub(super) space: Option<Space>,
    pub(super) source: Option<Space>,
    pub(super) width: Width,
}

/// What tells the memory of an instruction.
#[derive(Clone, Copy)]
enum Spaces {
    /// A modifier, or else the address.
    Said,
    /// Two modifiers: to and from. Without them it is a barrier of copies, not one.
    Copied,
    /// The instruction.
    Fixed(Option<Space>, Option<Space>),
}

/// What tells the width.
#[derive(Clone, Copy)]
enum Widths {
    /// The modifiers for a vector and for the type.
    Vector,
    /// The third operand, in bytes.
    Operand,
    /// The modifiers for the shape and for types.
    Tile,
    Unknown,
}

struct Rule {
    name: &'static str,
    operation: Operation,
    spaces: Spaces,
    widths: Widths,
}

const fn rule(name: &'static str, operation: Operation, spaces: Spaces, widths: Widths) -> Rule {
    Rule { name, operation, spaces, widths }
}

const TENSOR: Spaces = Spaces::Fixed(Some(Space::Tensor), None);
const TEXTURE: Spaces = Spaces::Fixed(Some(Space::Texture), None);
const SURFACE: Spaces = Spaces::Fixed(Some(Space::Surface), None);

/// Every instruction that is listed. Where several fit, the longest does.
#[rustfmt::skip]
const RULES: &[Rule] = {
    use Operation::{Atomic, Copy, Load, Mma, Prefetch, Reduce, Store};
    use Spaces::{Copied, Fixed, Said};
    use Widths::{Operand, Tile, Unknown, Vector};
    &[
        rule("ld", Load, Said, Vector),
        rule("ldu", Load, Said, Vector),
        rule("st", Store, Said, Vector),
        rule("st.async", Store, Said, Vector),
        rule("st.bulk", Store, Said, Unknown),
        rule("atom", Atomic, Said, Vector),
        rule("red", Reduce, Said, Vector),
        rule("red.async", Reduce, Said, Vector),
        rule("multimem.ld_reduce", Load, Said, Vector),
        rule("multimem.st", Store, Said, Vector),
        rule("multimem.red", Reduce, Said, Vector),
        rule("ldmatrix", Load, Said, Tile),
        rule("stmatrix", Store, Said, Tile),
        rule("wmma.load", Load, Said, Tile),
        rule("wmma.store", Store, Said, Tile),
        rule("tcgen05.ld", Load, TENSOR, Tile),
        rule("tcgen05.st", Store, TENSOR, Tile),
        rule("cp.async", Copy, Copied, Operand),
        rule("cp.async.bulk", Copy, Copied, Operand),
        rule("cp.async.bulk.tensor", Copy, Copied, Tile),
        rule("cp.reduce.async.bulk", Reduce, Copied, Operand),
        rule("cp.reduce.async.bulk.tensor", Reduce, Copied, Tile),
        rule("multimem.cp.async.bulk", Copy, Copied, Operand),
        rule("multimem.cp.reduce.async.bulk", Reduce, Copied, Operand),
        rule("tcgen05.cp", Copy, Fixed(Some(Space::Tensor), Some(Space::Shared)), Tile),
        rule("prefetch", Prefetch, Said, Unknown),
        rule("prefetchu", Prefetch, Said, Unknown),
        rule("cp.async.bulk.prefetch", Prefetch, Said, Unknown),
        rule("cp.async.bulk.prefetch.tensor", Prefetch, Said, Tile),
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

/// Registers in which LLVM keeps the address of the thread's stack.
const STACK_POINTERS: [&str; 2] = ["%SP", "%SPL"];

impl Instruction {
    /// Reads a statement; `None` if it touches no memory that is listed.
    pub(super) fn parse(statement: &str) -> Option<Self> {
        let (opcode, operands) = split(statement);
        let rule = RULES.iter().filter(|rule| rule.fits(opcode)).max_by_key(|r| r.name.len())?;
        let modifiers = opcode[rule.name.len()..].split('.');
        let mut said = modifiers.clone().filter_map(MaybeSpace::parse);
        let (space, source) = match (rule.spaces, said.next()) {
            (Spaces::Fixed(space, source), _) => (space, source),
            (_, Some(MaybeSpace::Parameter)) | (Spaces::Copied, None) => return None,
            (Spaces::Said, None) => (Some(of_address(operands)), None),
            (Spaces::Said, Some(MaybeSpace::Is(space))) => (Some(space), None),
            (Spaces::Copied, Some(MaybeSpace::Is(to))) => match said.next()? {
                MaybeSpace::Is(from) => (Some(to), Some(from)),
                MaybeSpace::Parameter => return None,
            },
        };
        let width = match rule.widths {
            Widths::Vector => vector(modifiers),
            Widths::Operand => operand(operands),
            Widths::Tile => tile(modifiers),
            Widths::Unknown => Width::Unknown,
        };
        Some(Self { operation: rule.operation, name: rule.name, space, source, width })
    }
}

impl Rule {
    fn fits(&self, opcode: &str) -> bool {
        opcode.strip_prefix(self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// The opcode with its modifiers, and the operands, without a label or a predicate before them.
fn split(mut statement: &str) -> (&str, &str) {
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

/// A modifier that names a memory.
enum MaybeSpace {
    Is(Space),
    /// Parameters of kernels and calls, which are not listed.
    Parameter,
}

impl MaybeSpace {
    fn parse(modifier: &str) -> Option<Self> {
        Some(Self::Is(match modifier {
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

/// The memory of an address that may lie in any: LLVM's own stack is known by its register.
fn of_address(operands: &str) -> Space {
    let address = operands.split_once('[').unwrap_or_default().1;
    let base = address.trim_start().split([']', '+', ' ']).next().unwrap_or_default();
    if STACK_POINTERS.contains(&base) { Space::Local } else { Space::Generic }
}

fn vector<'a>(modifiers: impl Iterator<Item = &'a str> + Clone) -> Width {
    let lanes = modifiers.clone().find_map(|word| word.strip_prefix('v')?.parse().ok());
    let bits = modifiers.filter_map(bits).last();
    bits.map_or(Width::Unknown, |bits| Width::Vector { lanes: lanes.unwrap_or(1), bits })
}

/// Bits of a value of this type: `b32`, `f16x2`, `e4m3x4`.
fn bits(word: &str) -> Option<u16> {
    let (element, times) = match word.rsplit_once('x') {
        Some((element, times)) => (element, times.parse().ok()?),
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
    bits.checked_mul(times)
}

/// The third operand, if it is a number.
fn operand(operands: &str) -> Width {
    let size = operands.split(',').nth(2).map_or("", str::trim);
    let bytes = match size.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => size.parse(),
    };
    bytes.map_or(Width::Unknown, Width::Bytes)
}

fn tile<'a>(modifiers: impl Iterator<Item = &'a str>) -> Width {
    let words: Vec<_> = modifiers.filter(|word| is_shape(word) || bits(word).is_some()).collect();
    if words.is_empty() { Width::Unknown } else { Width::Tile(words.join(".")) }
}

/// Whether a modifier tells how many elements: `m16n8k16`, `x4`, `2d`, `16x32bx2`, `kind::f16`.
fn is_shape(word: &str) -> bool {
    let begins = |letters: &[char]| {
        word.strip_prefix(letters)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_counted = word.starts_with(|c: char| c.is_ascii_digit());
    begins(&['m', 'x']) || is_counted || word.starts_with("kind::")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operation, memory, source and width, in words.
    fn told(statement: &str) -> String {
        let Some(it) = Instruction::parse(statement) else { return "-".to_owned() };
        let space = it.space.map_or("-", Space::as_str);
        let source = it.source.map_or(String::new(), |source| format!("<{}", source.as_str()));
        format!("{} {} {space}{source} {}", it.name, it.operation.as_str(), it.width)
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
    fn instructions_mean_what_the_isa_says() {
        for (statement, meaning) in MEANINGS {
            assert_eq!(&told(statement), meaning, "{statement}");
        }
    }

    #[test]
    fn half_an_instruction_is_none_or_has_no_width() {
        for statement in
            ["", "@", "@%p1", ":", "::", "l", ".", "cp.async.cg.shared", "cp", "@%p ld"]
        {
            drop(told(statement));
        }
        assert_eq!(told("ld"), "ld LOAD GENERIC -");
        assert_eq!(told("ld.global.v99999.b32"), "ld LOAD GLOBAL 32");
        assert_eq!(told("ld.global.b65535x65535 a, [b"), "ld LOAD GLOBAL -");
        assert_eq!(
            told("cp.async.cg.shared.global [a], [b], 0xfffffffffffffffff"),
            "cp.async COPY SHARED<GLOBAL -"
        );
    }
}
