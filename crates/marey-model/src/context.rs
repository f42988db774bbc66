//! The kinds of context nodes, and the names that have a special meaning.

/// Name of the root node of every tree, as Proton writes it.
pub const ROOT_NAME: &str = "ROOT";

/// State under which kernels that only compute metadata run. Proton's readers drop its nodes.
pub const METADATA_STATE: &str = "__proton_launch_metadata";

/// Prefix of a metadata state that contains the name of the kernel.
pub const METADATA_STATE_PREFIX: &str = "__proton_launch_metadata:";

/// Name of the node that spans one training step.
pub const STEP_NAME: &str = "step";

/// Metric of a module's node, a text: file and line of its first call, as `train.py:12`.
pub const CALL_SITE: &str = "call_site";

/// The start of the names of the scopes that align the clock of `torch.profiler` with the
/// recorder's. A space and the number of the window follow it. A run with that window has no span
/// of this name.
pub const WINDOW_ANCHOR: &str = "marey.anchor";

/// Name of the node between the launch of a graph and the contexts that captured its kernels, as in
/// Proton's files.
pub const CAPTURED_AT: &str = "<captured_at>";

/// Kind of a context node. The numbers are part of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NodeKind {
    /// The root of a tree.
    Root = 0,
    /// A named region that a program entered.
    Scope = 1,
    /// A label appended below the scopes while it is active.
    State = 2,
    /// A call of a `torch.nn.Module`.
    Module = 3,
    /// An operation, such as a kernel launch through a hook.
    Operator = 4,
    /// A Python frame, `file:line@function`.
    Frame = 5,
    /// One training step, closed by the optimizer.
    Step = 6,
    /// A call of a device runtime or driver, such as a launch.
    Runtime = 7,
    /// A kernel, below the node that launched it.
    Kernel = 8,
    /// An instant that a program recorded: it has a count and no duration.
    Mark = 9,
}

impl NodeKind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::Root,
        Self::Scope,
        Self::State,
        Self::Module,
        Self::Operator,
        Self::Frame,
        Self::Step,
        Self::Runtime,
        Self::Kernel,
        Self::Mark,
    ];

    /// Returns the kind with this number; an unknown number is a plain scope.
    pub const fn from_u8(number: u8) -> Self {
        match number {
            0 => Self::Root,
            2 => Self::State,
            3 => Self::Module,
            4 => Self::Operator,
            5 => Self::Frame,
            6 => Self::Step,
            7 => Self::Runtime,
            8 => Self::Kernel,
            9 => Self::Mark,
            _ => Self::Scope,
        }
    }

    /// Returns the name used in files and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Scope => "scope",
            Self::State => "state",
            Self::Module => "module",
            Self::Operator => "operator",
            Self::Frame => "frame",
            Self::Step => "step",
            Self::Runtime => "runtime",
            Self::Kernel => "kernel",
            Self::Mark => "mark",
        }
    }
}

/// Source of the context of a session's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ContextSource {
    /// The scopes that the program entered; new threads start from the main thread's stack.
    Shadow = 0,
    /// The executing Python frames, then the scope.
    Python = 1,
}

impl std::str::FromStr for ContextSource {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "shadow" => Ok(Self::Shadow),
            "python" => Ok(Self::Python),
            _ => Err(format!("Unknown context source: {name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_a_round_trip_through_its_number() {
        for kind in NodeKind::ALL {
            assert_eq!(NodeKind::from_u8(kind as u8), kind);
        }
    }

    #[test]
    fn kinds_have_distinct_names_and_sources_are_parsed() {
        let names = NodeKind::ALL.map(NodeKind::as_str);
        assert_eq!((names[0], names[9]), ("root", "mark"));
        let distinct: std::collections::HashSet<_> = names.into_iter().collect();
        assert_eq!(distinct.len(), NodeKind::ALL.len());
        assert_eq!("shadow".parse(), Ok(ContextSource::Shadow));
        assert_eq!("python".parse(), Ok(ContextSource::Python));
        assert!("native".parse::<ContextSource>().is_err());
    }
}
